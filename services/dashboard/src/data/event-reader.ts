/** One server-sent event. */
export interface SentEvent {
  readonly name: string
  readonly data: string
  readonly id: string | null
}

/** A snapshot of the busiest plane is some megabytes; what has no end by then is no event. */
const EVENT_CHARS_MAX = 16 * 1024 * 1024

/**
 * Cuts a stream of text into events, however it was cut on its way. `EventSource` would do so by itself, but sends no
 * `Authorization`.
 */
export class EventReader {
  #rest = ''

  /** The events that `text` completes, in order. Throws for one that is too long. */
  take(text: string): readonly SentEvent[] {
    this.#rest += text
    const parts = this.#rest.split('\n\n')
    this.#rest = parts.pop() ?? ''
    if (this.#rest.length > EVENT_CHARS_MAX) throw new Error('an event of the stream is too long')
    return parts.flatMap((part) => eventOf(part) ?? [])
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
