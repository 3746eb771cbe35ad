import type { Refusal } from '../../shared/core/rollout.ts'
import { isQuotaError } from '../../shared/errors.ts'
import type { NatsPolicyClient } from '../../shared/nats/policy-client.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { type Tracer, traced } from '../../shared/runtime/tracing/tracer.ts'
import type { SyncMetrics } from './metrics.ts'
import { applyChanges, EMPTY_PLANE, type Plane } from './plane.ts'

export interface PolicyFeedOptions {
  readonly client: Pick<NatsPolicyClient, 'changesSince' | 'onRevision'>
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: SyncMetrics
  readonly onPlane: (plane: Plane) => void
  /** Called when a pull is wanted now rather than with the next beat. */
  readonly onWanted: () => void
  readonly tracer?: Tracer | undefined
}

/**
 * Follows the plane's policies by revision.
 *
 * Revisions only grow: a hint or an answer with an older one changes nothing (it is said, since then somebody
 * restored an older database). While admin is away the plane stays as it was.
 */
export class PolicyFeed {
  readonly #options: PolicyFeedOptions
  #plane: Plane = EMPTY_PLANE
  #hinted = 0
  #isFullWanted = false
  #isPullWanted = true
  #saidOlder = 0
  #refused: Refusal | null = null
  #failure: string | null = null
  /** The header fields of the newest hint. */
  #hintField: ((name: string) => string | undefined) | undefined

  constructor(options: PolicyFeedOptions) {
    this.#options = options
    options.client.onRevision((revision, field) => this.#hear(revision, field))
  }

  /** Begins with what the region's Redis holds, unless something newer is known. */
  seed(plane: Plane): void {
    if (plane.revision > this.#plane.revision) this.#plane = plane
  }

  /** The newest revision that was heard of. */
  get heard(): number {
    return Math.max(this.#hinted, this.#plane.revision)
  }

  /** What admin told last that this process does not know how to apply; null since it knew. */
  get refused(): Refusal | null {
    return this.#refused
  }

  /** Why the last question was not answered; null where it was. */
  get failure(): string | null {
    return this.#failure
  }

  /** Asks for changes with the next pull even if no hint says that there are any. */
  wantPull(): void {
    this.#isPullWanted = true
    this.#options.onWanted()
  }

  /** Asks for all there is: what is known may be older than what other regions act on. */
  wantFull(): void {
    this.#isFullWanted = true
    this.wantPull()
  }

  get isBehind(): boolean {
    return this.#isPullWanted || this.#hinted > this.#plane.revision
  }

  /** Asks admin when there is a reason to; rejects when it does not answer, and is then still behind. */
  async pullOnce(): Promise<void> {
    if (!this.isBehind) return
    const isFull = this.#isFullWanted
    this.#isPullWanted = false
    this.#isFullWanted = false
    try {
      const isTaken = await this.#pullTraced(isFull ? EMPTY_PLANE : this.#plane)
      this.#options.metrics.policyPulls.inc({ outcome: 'answered' })
      this.#refused = null
      this.#failure = null
      if (isTaken) return
      // A region that waits for a whole plane goes on waiting: for an admin that knows what this region knew.
      this.#isPullWanted = isFull
      this.#isFullWanted ||= isFull
    } catch (err) {
      this.#options.metrics.policyPulls.inc({ outcome: 'failed' })
      this.#isPullWanted = true
      this.#isFullWanted ||= isFull
      this.#failure = err instanceof Error ? err.message : String(err)
      if (isQuotaError(err, 'QUOTA_INVALID_INPUT')) {
        this.#refused = { revision: this.heard, reason: err.message }
      }
      throw err
    }
  }

  /** In the trace of the change that was hinted at. */
  #pullTraced(known: Plane): Promise<boolean> {
    const from = this.#hintField
    this.#hintField = undefined
    const start = { name: 'read policies', kind: 'consumer', from } as const
    return traced(this.#options.tracer, start, () => this.#pull(known))
  }

  /** False when admin answered with an older revision than is known, which changes nothing. */
  async #pull(known: Plane): Promise<boolean> {
    const { client, clock, metrics, onPlane, log } = this.#options
    const askedAtMs = clock.monotonicMs()
    const since = await client.changesSince(known.revision)
    if (since.revision < this.#plane.revision) {
      this.#sayOlder(since.revision)
      return false
    }
    this.#plane = applyChanges(known, since, askedAtMs)
    metrics.policyRevision.set(this.#plane.revision)
    log.debug({ revision: this.#plane.revision, changes: since.changes.length }, 'policies read')
    onPlane(this.#plane)
    return true
  }

  #hear(revision: number, field?: (name: string) => string | undefined): void {
    if (revision < this.#plane.revision) this.#sayOlder(revision)
    if (revision <= this.#hinted) return
    this.#hinted = revision
    this.#hintField = field
    if (revision > this.#plane.revision) this.#options.onWanted()
  }

  #sayOlder(revision: number): void {
    if (this.#saidOlder === revision) return
    this.#saidOlder = revision
    this.#options.log.warn(
      { revision, known: this.#plane.revision },
      'admin has an older revision than this region; it is not applied',
    )
  }
}
