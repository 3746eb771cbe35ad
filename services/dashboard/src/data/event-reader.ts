/** One server-sent event. */
export interface SentEvent {
  readonly name: string
  readonly data: string
  readonly id: string | null
}

/** The largest snapshot, of 4,000 hot keys in 64 regions, is below this; what has no end by then is no event. */
const EVENT_CHARS_MAX = 128 * 1024 * 1024

const END = '\n\n'

/**
 * Cuts a stream of text into events, however it was cut on its way. `EventSource` would do so by itself, but sends no
 * `Authorization`.
 */
export class EventReader {
  #parts: string[] = []
  #length = 0

  /** The events that `text` completes, in order. Throws for one that is too long. */
  take(text: string): readonly SentEvent[] {
    // Only what is new is looked at: an event of megabytes comes in a hundred pieces.
    const seam = `${this.#parts.at(-1)?.slice(-1) ?? ''}${text.slice(0, 1)}`
    const isEnded = seam === END || text.includes(END)
    this.#parts.push(text)
    this.#length += text.length
    if (!isEnded) {
      if (this.#length > EVENT_CHARS_MAX) throw new Error('an event of the stream is too long')
      return []
    }
    const events = this.#parts.join('').split(END)
    const rest = events.pop() ?? ''
    this.#parts = [rest]
    this.#length = rest.length
    return events.flatMap((event) => eventOf(event) ?? [])
  }
}

/** Null for what carries no data, such as a comment. */
function eventOf(text: string): SentEvent | null {
  const fields = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, name = '', value = ''] = /^([^:]*): ?(.*)$/s.exec(line) ?? []
    if (name !== '') fields.set(name, value)
  }
  const data = fields.get('data')
  if (data === undefined) return null
  return { name: fields.get('event') ?? 'message', data, id: fields.get('id') ?? null }
}
