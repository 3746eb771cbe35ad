/** The sync daemon's region store over Redis; the port says what each method guarantees. */
import type { Boot } from '../core/algorithms/algorithm.ts'
import { assert } from '../core/assert.ts'
import type { CheckTokens } from '../core/check-tokens.ts'
import { parseCounterId, SLOT_GROUPS } from '../core/counter-id.ts'
import type { CounterId } from '../core/descriptor.ts'
import type { Count } from '../core/estimate/count-table.ts'
import { REGION_POLICY_FORMAT } from '../core/known-policies.ts'
import type { PairState, ShareOutcome, ShareWrite } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import type { Collected, OpenedStore, RegionStore, StockAdd } from '../core/ports.ts'
import { isQuotaError, QuotaError } from '../errors.ts'
import { type Pause, Stretch } from '../runtime/stretch.ts'
import { addAllStock, stockOf } from './add-stock.ts'
import { adoptMasters } from './adopt-masters.ts'
import type { RedisTarget } from './client.ts'
import { collectGroup, windowsBefore } from './collect.ts'
import { readEnforcers } from './enforcer-roll.ts'
import { exchangeAllCounts } from './exchange-counts.ts'
import { fenceAll, replicationIdOf } from './fence-all.ts'
import { GROUP_KEYS, REGION_KEYS, type RegionField } from './keys.ts'
import { unpackDoubles } from './layout.ts'
import { RegionLink, unavailable } from './region-link.ts'
import { WrittenPolicies } from './region-policies.ts'
import { connectRegionRedisOnce, type RegionRedis } from './region-redis.ts'
import { readRegionState } from './region-state.ts'
import { bytesOf, readScripts, type ScriptTexts, textFor } from './scripts.ts'
import { SERVED_FIELDS, SERVED_NAMES, type ServedShas } from './served-scripts.ts'
import type { MonotonicClock } from './store-clock.ts'
import { UsageTotals } from './usage-totals.ts'
import { shareCalls, writeGroupShares } from './write-shares.ts'

export interface RegionStoreOptions extends RedisTarget {
  readonly region: RegionId
  readonly clock: MonotonicClock
  readonly log?: { warn(fields: object, message: string): void }
  /** The scripts' texts; those of the package unless given. */
  readonly scripts?: ScriptTexts
}

/** Connects once. When the connection ends, every method rejects and a new store must be connected. */
export async function connectRegionStore(options: RegionStoreOptions): Promise<RegionStore> {
  let redis: RegionRedis | null = null
  try {
    redis = await connectRegionRedisOnce({
      url: options.url,
      ...(options.tls && { tls: options.tls }),
      ...(options.login && { login: options.login }),
      name: `quotaplane-sync-${options.region}`,
      onError: (err) => options.log?.warn({ err }, 'redis connection failed'),
    })
    const link = new RegionLink(redis, options.scripts ?? readScripts())
    await requireRegion(link, options.region)
    await link.loadScripts()
    return new RedisRegionStore(link, options)
  } catch (err) {
    redis?.disconnect()
    throw isQuotaError(err, 'QUOTA_FENCED') ? err : unavailable('Redis could not be reached', err)
  }
}

/** Another region's rows read as one's own would be lent twice, so a wrong URL is found before anything else. */
async function requireRegion(link: RegionLink, region: RegionId): Promise<void> {
  const field: RegionField = 'region'
  const { region: key } = REGION_KEYS
  const read = () => link.onNode(key, (node) => node.hget(key, field))
  const stored = await link.within('read whose Redis this is', read)
  if (stored === null || stored === region) return
  const message = `this Redis holds the state of region ${stored}, not of ${region}: check REDIS_URL`
  throw new QuotaError('QUOTA_FENCED', message)
}

/** A clock may be slewed by this without a new boot. */
const CLOCK_SLIP_US = 1_000_000

interface MetaChange {
  readonly recovering?: boolean
  readonly serving?: boolean
  readonly policyVersion?: number
}

class RedisRegionStore implements RegionStore {
  readonly #link: RegionLink
  readonly #clock: MonotonicClock
  readonly #region: RegionId
  #written = new WrittenPolicies(0)
  #tracked: readonly Set<CounterId>[] = []
  #offsetMs = 0
  /** What was counted before this process listened is not named as changed. */
  #mustReadAll = true
  #usage = new UsageTotals()
  #boot: Boot = { startUs: 0, recovering: false }

  constructor(link: RegionLink, { clock, region }: RegionStoreOptions) {
    this.#link = link
    this.#clock = clock
    this.#region = region
  }

  async claimLeadership(holder: string, ttlMs: number): Promise<boolean> {
    const args = [holder, Math.ceil(ttlMs)]
    return (await this.#link.run('claim-leadership', [REGION_KEYS.leader], args)) === 1
  }

  async releaseLeadership(holder: string): Promise<void> {
    await this.#link.run('release-leadership', [REGION_KEYS.leader], [holder])
  }

  async open(pause?: Pause): Promise<OpenedStore> {
    this.#link.markClosed()
    await this.#link.loadScripts()
    const { fence, replicationId, metas, offsetMs } = await fenceAll(this.#link, this.#clock)
    this.#offsetMs = offsetMs
    this.#mustReadAll = true
    this.#usage = new UsageTotals()
    const state = await readRegionState(this.#link, new Stretch(pause))
    const begun = metas.every((meta) => meta !== null && meta.incarnation === state.incarnation)
    const served = begun && metas.every((meta) => meta?.serving === true)
    const recovering = metas.some((meta) => meta?.recovering === true)
    this.#boot = { startUs: Math.max(...metas.map((meta) => meta?.startUs ?? 0)), recovering }
    const version = Math.max(state.version, ...metas.map((meta) => meta?.policyVersion ?? 0))
    this.#written = new WrittenPolicies(version, state.policies, state.texts)
    this.#tracked = noneTracked()
    for (const { id } of state.rows) this.#trackedBy(id).add(id)
    const scriptsLoaded =
      served && !this.#isBeforeBoot() && (await this.#areLoaded(state.shas, state.replicationId))
    this.#link.markOpened({ fence, replicationId })
    return {
      fence,
      scriptsLoaded,
      recovering,
      incarnation: state.incarnation,
      seqReserved: state.seqReserved,
      policyVersion: state.version,
      policyRevision: state.revision,
      checkTokensAsOfMs: state.checkTokensAsOfMs,
      planePolicies: state.plane,
      members: state.members,
      pairs: state.pairs,
      rows: state.rows,
      stock: stockOf(state.policies),
      storeOffsetMs: this.#offsetMs,
      bootedAtStoreMs: this.#boot.startUs / 1_000,
    }
  }

  async begin(boot: Parameters<RegionStore['begin']>[0]): Promise<void> {
    const { incarnation, levels, recovering } = boot
    const args = [incarnation, levels, Number(recovering)]
    const replies = await Promise.all(
      GROUP_KEYS.map(({ meta, ledger }) =>
        this.#link.runFenced('begin-group', [meta, ledger], args),
      ),
    )
    const starts = replies.map((reply) => unpackDoubles(bytesOf(reply))[1] ?? 0)
    this.#boot = { startUs: Math.max(...starts), recovering }
    this.#tracked = noneTracked()
    await this.#writeHash(REGION_KEYS.pairs, 'drop', [])
    await this.#writeRegion({ region: this.#region, incarnation: String(incarnation) })
  }

  async serve(): Promise<void> {
    const { fence, replicationId } = this.#link.opened
    const scripts = Object.keys(SERVED_NAMES) as (keyof ServedShas)[]
    const shas = await this.#link.within('load the check scripts', () =>
      Promise.all(
        scripts.map((script) => {
          const text = this.#link.textOf(SERVED_NAMES[script])
          return this.#link.load(textFor(text, { replicationId, fence }))
        }),
      ),
    )
    const fields = scripts.map((script, index) => [SERVED_FIELDS[script], shas[index]])
    await this.#setMeta({ serving: true })
    await this.#writeRegion({ replicationId, ...Object.fromEntries(fields) })
  }

  reserveSeq(upTo: number): Promise<void> {
    return this.#writeRegion({ seqReserved: String(upTo) })
  }

  async collect(): Promise<Collected> {
    if (await adoptMasters(this.#link)) await this.serve()
    const untilUs = this.#nowUs()
    const windows = this.#mustReadAll ? windowsBefore(this.#written.limits.values(), untilUs) : []
    const usage = this.#usage
    const clock = this.#clock
    const readings = await Promise.all(
      this.#tracked.map((ids, group) =>
        collectGroup(this.#link, { group, tracked: [...ids], windows, usage, clock }),
      ),
    )
    this.#offsetMs = Math.max(...readings.map(({ offsetMs }) => offsetMs))
    this.#mustReadAll = readings.some(({ isAnyChanged }) => isAnyChanged)
    if (this.#isBeforeBoot()) {
      this.#link.markClosed()
      const message = 'the clock of Redis was set back to before its boot'
      throw new QuotaError('QUOTA_FENCED', message)
    }
    return {
      storeOffsetMs: this.#offsetMs,
      samples: readings.flatMap(({ samples }) => samples),
      noticed: readings
        .flatMap(({ noticed }) => noticed)
        .filter((id) => this.#written.isReadable(id)),
      missing: readings.flatMap(({ missing }) => missing),
      corrupt: readings.flatMap(({ corrupt }) => corrupt),
      usage: usage.takeRows(),
    }
  }

  writePairs(pairs: Readonly<Record<RegionId, PairState>>): Promise<void> {
    const values = Object.entries(pairs).flatMap(([peer, pair]) => [peer, JSON.stringify(pair)])
    return this.#writeHash(REGION_KEYS.pairs, 'keep', values)
  }

  async writeShares(writes: readonly ShareWrite[]): Promise<ReadonlyMap<CounterId, ShareOutcome>> {
    const written = this.#written
    const context = {
      limitFor: (id: CounterId) => written.limitFor(id),
      offsetMs: this.#offsetMs,
      nowMs: this.#nowUs() / 1_000,
    }
    const outcomes = await Promise.all(
      shareCalls(writes).map((call) => writeGroupShares(this.#link, call, context)),
    )
    const all = new Map(outcomes.flat())
    for (const { id, row } of writes) {
      if (all.get(id) !== 'written') continue
      if (row === null) this.#trackedBy(id).delete(id)
      else this.#trackedBy(id).add(id)
    }
    return all
  }

  exchangeCounts(known: readonly Count[]): Promise<readonly Count[]> {
    return exchangeAllCounts(this.#link, known, this.#written.limits)
  }

  readEnforcers(): ReturnType<RegionStore['readEnforcers']> {
    return this.#link.within('read what enforcers apply', () =>
      this.#link.onNode(REGION_KEYS.enforcers, (node) => readEnforcers(node)),
    )
  }

  addStock(adds: readonly StockAdd[]): Promise<void> {
    return addAllStock(this.#link, adds, this.#written.limits)
  }

  async writePolicies(
    change: Parameters<RegionStore['writePolicies']>[0],
    pause?: Pause,
  ): Promise<number> {
    const { revision, members, recovering } = change
    const stretch = new Stretch(pause)
    const before = this.#boot
    const nowUs = await this.#setMeta({})
    const boot = { startUs: before.startUs, recovering }
    // Above every version that an enforcer may remember from before this Redis lost its data.
    const next = Math.max(this.#written.version + 1, Math.ceil(nowUs / 1_000))
    const stamp = { version: next, nowUs, boot }
    const written = await this.#written.changeTo(change, stamp, stretch)
    const { plane, region } = written
    const isSame =
      region.set.length + region.removed.length === 0 && recovering === before.recovering
    const version = isSame && this.#written.version > 0 ? this.#written.version : next
    const fields: Partial<Record<RegionField, string>> = {
      version: String(version),
      revision: String(revision),
      format: String(REGION_POLICY_FORMAT),
      members: JSON.stringify(members),
    }
    const values = [
      Object.entries(fields).flat(),
      plane.set,
      plane.removed,
      region.set,
      region.removed,
    ]
    const counts = values.map((list, index) =>
      index % 2 === 1 || index === 0 ? list.length / 2 : list.length,
    )
    await stretch.rest()
    const { fence, versions, region: regionKey, plane: planeKey, policies } = REGION_KEYS
    await this.#link.runFenced(
      'write-policies',
      [fence, regionKey, planeKey, policies, versions],
      [version, ...counts, ...values.flat()],
    )
    await this.#setMeta({ policyVersion: version, recovering })
    this.#boot = boot
    this.#written = this.#written.after(written, version)
    this.#usage.keepOnly(this.#written.limits)
    await stretch.rest()
    return version
  }

  writeCheckTokens({ asOfMs, tokens }: CheckTokens): Promise<void> {
    return this.#writeRegion({
      checkTokens: JSON.stringify(tokens),
      checkTokensAsOf: String(asOfMs),
    })
  }

  close(): Promise<void> {
    this.#link.close()
    return Promise.resolve()
  }

  /** Changes every slot group's meta; gives an instant of Redis TIME while it did. */
  async #setMeta(change: MetaChange): Promise<number> {
    const { recovering, serving, policyVersion } = change
    const args = [
      recovering === undefined ? '' : Number(recovering),
      serving === undefined ? '' : Number(serving),
      policyVersion ?? '',
    ]
    const replies = await Promise.all(
      GROUP_KEYS.map(({ meta }) => this.#link.runFenced('set-meta', [meta], args)),
    )
    return Math.max(...replies.map((reply) => unpackDoubles(bytesOf(reply))[0] ?? 0))
  }

  #writeRegion(fields: Partial<Record<RegionField, string>>): Promise<void> {
    return this.#writeHash(REGION_KEYS.region, 'keep', Object.entries(fields).flat())
  }

  async #writeHash(key: string, others: 'keep' | 'drop', values: readonly string[]): Promise<void> {
    await this.#link.runFenced('write-region', [REGION_KEYS.fence, key], [others, ...values])
  }

  /** Every bucket would stay empty until the clock has caught up; a new boot is the way out. */
  #isBeforeBoot(): boolean {
    return this.#nowUs() < this.#boot.startUs - CLOCK_SLIP_US
  }

  #nowUs(): number {
    return (this.#clock.monotonicMs() + this.#offsetMs) * 1_000
  }

  /** On every server that has keys of the region, and under a replication id that it has still. */
  async #areLoaded(shas: readonly string[], replicationIds: string): Promise<boolean> {
    if (shas.length < Object.keys(SERVED_NAMES).length) return false
    const keys = [REGION_KEYS.region, ...GROUP_KEYS.map(({ meta }) => meta)]
    const loaded = await this.#link.within('look for the check scripts', () =>
      this.#link.onEach(keys, async (node) => {
        const found = await node.script('EXISTS', ...shas)
        const areThere = Array.isArray(found) && found.every((one) => one === 1)
        return areThere && replicationIds.split(',').includes(await replicationIdOf(node))
      }),
    )
    return loaded.every(Boolean)
  }

  #trackedBy(id: CounterId): Set<CounterId> {
    const ids = this.#tracked[parseCounterId(id)?.group ?? -1]
    assert(ids !== undefined, 'the counter is of a slot group')
    return ids
  }
}

/** Ids of tracked counters by slot group. */
function noneTracked(): readonly Set<CounterId>[] {
  return Array.from({ length: SLOT_GROUPS }, () => new Set())
}
