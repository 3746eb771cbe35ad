import { refusalOf } from '../../shared/core/known-policies.ts'
import { buildPolicyIndex, type PolicyIndex } from '../../shared/core/policy-index.ts'
import type { PolicyReader, RegionPolicies } from '../../shared/core/ports.ts'
import type { EnforcerStatus } from '../../shared/core/rollout.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'

/** What the cache says of itself. */
export type AppliedPolicies = Pick<EnforcerStatus, 'revision' | 'sinceMs' | 'refused'>

interface Refused {
  readonly version: number
  readonly revision: number
  readonly reason: string
}

/**
 * The policies that this enforcer applies: the newest that it has read, for as long as nothing newer is read.
 *
 * A failure to read changes nothing, so the last known policies stay in force while Redis is away. A snapshot
 * that arrives late never replaces a newer one. One that this version of the enforcer does not know how to apply
 * changes nothing either, and is told of.
 */
export class PolicyCache {
  readonly #reader: PolicyReader
  readonly #clock: Clock
  readonly #log: Logger
  #index: PolicyIndex | null = null
  /** What was read last, in force or refused: only what changed since is read again. */
  #known: RegionPolicies | null = null
  #reading: Promise<void> | null = null
  #following: Promise<void> | null = null
  #confirmedMs: number | null = null
  #revision = 0
  #sinceMs: number | null = null
  #refused: Refused | null = null
  readonly #onApplied: () => void

  constructor(options: {
    readonly reader: PolicyReader
    readonly clock: Clock
    readonly log: Logger
    /** Called when what `applied` gives has changed. */
    readonly onApplied?: () => void
  }) {
    this.#reader = options.reader
    this.#clock = options.clock
    this.#log = options.log
    this.#onApplied = options.onApplied ?? (() => {})
  }

  /** Null until the region's daemon has written policies and they were read once. */
  current(): PolicyIndex | null {
    return this.#index
  }

  /** The plane revision in force here, and what of newer ones was refused. */
  get applied(): AppliedPolicies {
    const refused = this.#refused
    return {
      revision: this.#revision,
      sinceMs: this.#sinceMs,
      refused: refused && { revision: refused.revision, reason: refused.reason },
    }
  }

  /** How long ago Redis last said what the newest version is; null before the first time. */
  ageMs(): number | null {
    return this.#confirmedMs === null ? null : this.#clock.monotonicMs() - this.#confirmedMs
  }

  /** Reads the policies if Redis has another version than the one in force. */
  async pollOnce(): Promise<void> {
    const { version, revision } = await this.#reader.readHead()
    if (version === this.#refused?.version) return
    if (version !== this.#index?.version) return await this.refresh()
    this.#confirmedMs = this.#clock.monotonicMs()
    this.#note(revision)
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
    // Checks that meet the refused version ask again and again; reading all of it would change nothing.
    if (this.#refused !== null) {
      const { version } = await this.#reader.readHead()
      if (version === this.#refused.version) return
    }
    this.#known = await this.#reader.readAll(this.#known)
    this.#adopt(this.#known)
    this.#confirmedMs = this.#clock.monotonicMs()
  }

  #adopt(policies: RegionPolicies): void {
    // Version 0: this Redis has no policies yet, or lost them; those in force are the best knowledge there is.
    if (policies.version === 0 || !isNewer(policies, this.#index)) return
    const reason = refusalOf(policies)
    if (reason !== null) {
      this.#refuse(policies, reason)
      return
    }
    this.#refused = null
    this.#index = buildPolicyIndex(policies, this.#index)
    const { version, revision, incarnation, policyCount } = this.#index
    this.#log.info({ version, revision, incarnation, policies: policyCount }, 'policies applied')
    this.#note(policies.revision ?? revision, true)
  }

  #refuse({ version, revision = 0 }: RegionPolicies, reason: string): void {
    if (this.#refused?.version === version) return
    this.#refused = { version, revision, reason }
    this.#log.error({ version, revision, reason }, 'policies refused; those before stay in force')
    this.#onApplied()
  }

  #note(revision: number, isChanged = false): void {
    if (revision !== this.#revision) this.#sinceMs = this.#clock.wallMs()
    else if (!isChanged) return
    this.#revision = revision
    this.#onApplied()
  }
}

/** A region that lost its Redis counts versions anew, under a later incarnation. */
function isNewer(policies: RegionPolicies, index: PolicyIndex | null): boolean {
  if (index === null) return true
  if (policies.incarnation !== index.incarnation) return policies.incarnation > index.incarnation
  return policies.version > index.version
}
