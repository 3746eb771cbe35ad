/**
 * What the services ask of tracing. It knows no library, so that a process that traces nothing loads none.
 *
 * Where tracing is off there is no tracer at all (`undefined`), and nothing is done on a check's path.
 */

/** What travels with a message, by W3C Trace Context: `traceparent` and `tracestate`. */
export type TraceFields = Readonly<Record<string, string>>

export type SpanNotes = Readonly<Record<string, string | number | boolean>>

export interface SpanStart {
  /** From a bounded set: no keys, ids or paths that callers choose. */
  readonly name: string
  readonly kind: 'server' | 'client' | 'producer' | 'consumer' | 'internal'
  readonly notes?: SpanNotes
  /** The fields of whoever asked for this. Without it, or where it has none, the span belongs to the one around the call. */
  readonly from?: ((field: string) => string | undefined) | undefined
}

/** A span that is recorded. */
export interface Span {
  rename(name: string): void
  note(notes: SpanNotes): void
  /** Once; a failure is noted by its message. */
  end(failure?: unknown): void
  readonly traceId: string
  readonly spanId: string
}

export interface Tracer {
  /** Begins a span; null where its trace is not sampled, or where a `client` span would belong to no other. */
  begin(start: SpanStart): Span | null
  /** Runs `work`; spans that begin in it, and in all that it leads to, belong to `span`. */
  inside<T>(span: Span, work: () => T): T
  /** The span around the call. */
  current(): Span | null
  /** What tells another process of the span around the call; undefined outside of one. */
  fields(): TraceFields | undefined
}

/** Runs `work` in a span of its own where there is a tracer and the trace is sampled, and just runs it otherwise. */
export async function traced<T>(
  tracer: Tracer | undefined,
  start: SpanStart,
  work: () => Promise<T>,
): Promise<T> {
  const span = tracer?.begin(start) ?? null
  if (tracer === undefined || span === null) return await work()
  try {
    const value = await tracer.inside(span, work)
    span.end()
    return value
  } catch (err) {
    span.end(err)
    throw err
  }
}

/** Reads trace fields that were kept. */
export function fieldReader(
  fields: TraceFields | undefined,
): ((field: string) => string | undefined) | undefined {
  return fields === undefined ? undefined : (name) => fields[name]
}
