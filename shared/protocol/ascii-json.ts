const BEYOND_ASCII = /[\u0080-\uffff]/g
const HAS_BEYOND_ASCII = /[\u0080-\uffff]/

/**
 * `text` as a JSON string of ASCII alone, so that its length in characters is its length in bytes: counting the bytes
 * of each answer, and encoding it, costs more than putting it together.
 */
export function asciiJson(text: string): string {
  const json = JSON.stringify(text)
  if (!HAS_BEYOND_ASCII.test(json)) return json
  return json.replace(
    BEYOND_ASCII,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
