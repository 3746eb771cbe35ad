import type { PolicyPublisher } from '../../shared/nats/policy-publisher.ts'
import { fieldReader, type TraceFields, type Tracer } from '../../shared/runtime/tracing/tracer.ts'

/**
 * Tells the regions of revisions; the first telling of one that a traced request made belongs to that request's trace.
 * Where several requests came between, it belongs to the last of them.
 */
export class Announcing {
  readonly #publisher: Pick<PolicyPublisher, 'announce'>
  readonly #tracer: Tracer | undefined
  readonly #wake: () => void
  #announced = 0
  #changedBy: TraceFields | undefined

  /** `wake` has the newest revision announced soon. */
  constructor(
    publisher: Pick<PolicyPublisher, 'announce'>,
    tracer: Tracer | undefined,
    wake: () => void,
  ) {
    this.#publisher = publisher
    this.#tracer = tracer
    this.#wake = wake
  }

  /** Called in the request that changed the plane. */
  readonly changed = (): void => {
    this.#changedBy = this.#tracer?.fields() ?? this.#changedBy
    this.#wake()
  }

  readonly announce = (revision: number, tokens: string | null): void => {
    const isNew = revision > this.#announced
    const from = isNew ? fieldReader(this.#changedBy) : undefined
    if (isNew) this.#announced = revision
    if (from === undefined || this.#tracer === undefined) {
      this.#publisher.announce(revision, tokens)
      return
    }
    this.#changedBy = undefined
    const notes = { 'messaging.system': 'nats', 'quotaplane.policy_revision': revision }
    const span = this.#tracer.begin({ name: 'announce revision', kind: 'producer', notes, from })
    if (span === null) {
      this.#publisher.announce(revision, tokens)
      return
    }
    this.#tracer.inside(span, () =>
      this.#publisher.announce(revision, tokens, this.#tracer?.fields()),
    )
    span.end()
  }
}
