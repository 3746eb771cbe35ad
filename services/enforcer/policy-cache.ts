import { buildPolicyIndex, type PolicyIndex } from '../../shared/core/policy-index.ts'
import type { PolicyReader, RegionPolicies } from '../../shared/core/ports.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'

/**
 * The policies that this enforcer applies: the newest that it has read, for as long as nothing newer is read.
 *
 * A failure to read changes nothing, so the last known policies stay in force while Redis is away. A snapshot
 * that arrives late never replaces a newer one.
 */
export class PolicyCache {
  readonly #reader: PolicyReader
  readonly #clock: Clock
  readonly #log: Logger
  #index: PolicyIndex | null = null
  #reading: Promise<void> | null = null
  #following: Promise<void> | null = null
  #confirmedMs: number | null = null

  constructor(options: {
    readonly reader: PolicyReader
    readonly clock: Clock
    readonly log: Logger
  }) {
    this.#reader = options.reader
    this.#clock = options.clock
    this.#log = options.log
  }

  /** Null until the region's daemon has written policies and they were read once. */
  current(): PolicyIndex | null {
    return this.#index
  }

  /** How long ago Redis last said what the newest version is; null before the first time. */
  ageMs(): number | null {
    return this.#confirmedMs === null ? null : this.#clock.monotonicMs() - this.#confirmedMs
  }

  /** Reads the policies if Redis has another version than the one in force. */
  async pollOnce(): Promise<void> {
    const version = await this.#reader.readVersion()
    if (version !== this.#index?.version) await this.refresh()
    else this.#confirmedMs = this.#clock.monotonicMs()
  }

  /**
   * Reads the policies, by a read that begins no earlier than the call: one under way may have missed the change
   * that the caller was told of. However many callers there are, one read runs and at most one follows.
   */
  refresh(): Promise<void> {
    if (this.#reading === null) return this.#start()
    const begin = (): Promise<void> => {
      this.#following = null
      return this.#reading ?? this.#start()
    }
    this.#following ??= this.#reading.then(begin, begin)
    return this.#following
  }

  #start(): Promise<void> {
    this.#reading = this.#read().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  async #read(): Promise<void> {
    this.#adopt(await this.#reader.readAll())
    this.#confirmedMs = this.#clock.monotonicMs()
  }

  #adopt(policies: RegionPolicies): void {
    // Version 0: this Redis has no policies yet, or lost them; those in force are the best knowledge there is.
    if (policies.version === 0 || !isNewer(policies, this.#index)) return
    this.#index = buildPolicyIndex(policies, this.#index)
    const { version, revision, incarnation, policyCount } = this.#index
    this.#log.info({ version, revision, incarnation, policies: policyCount }, 'policies applied')
  }
}

/** A region that lost its Redis counts versions anew, under a later incarnation. */
function isNewer(policies: RegionPolicies, index: PolicyIndex | null): boolean {
  if (index === null) return true
  if (policies.incarnation !== index.incarnation) return policies.incarnation > index.incarnation
  return policies.version > index.version
}
