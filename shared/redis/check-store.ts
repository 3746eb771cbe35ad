/**
 * Decides checks in the region's Redis: one script call for all checks of a slot group that arrive in one turn of
 * the event loop.
 */
import { assert } from '../core/assert.ts'
import type {
  CheckAnswer,
  CheckStore,
  GroupCheck,
  LimitDecision,
  RefundAnswer,
  ReleaseAnswer,
  RequestCheck,
  SoleCheck,
} from '../core/ports.ts'
import { TOKENS_MAX } from '../core/units.ts'
import type { Batch } from './batch.ts'
import { Batcher } from './batcher.ts'
import { holderDigest } from './holder.ts'
import { groupKeys, refundKey } from './keys.ts'
import { unpackDoubles } from './layout.ts'
import type { RegionRedis } from './region-redis.ts'
import { bytesOf } from './scripts.ts'
import { ServedScripts } from './served-scripts.ts'
import { UsualChecks } from './usual-checks.ts'

/**
 * How long Redis may leave a check without an answer before it is given up to its policy's failure behaviour.
 *
 * Redis is in the same region: it answers in well under a millisecond, or it is in trouble.
 */
export const CHECK_DEADLINE_MS = 2

/** Most targets in one script call, so that one call stalls Redis for less than a millisecond. */
export const BATCH_TARGETS_MAX = 128

/** Most checks that may wait at once; more means that Redis does not keep up, and waiting would not help. */
export const WAITING_MAX = 16_384

/** Codes of `lua/check.lua` in place of a wait. */
const ALLOWED = -1
const EXCEEDS = -2
const NEVER = -3

const DOUBLE_BYTES = 8

export interface CheckStoreOptions {
  readonly redis: RegionRedis
  readonly deadlineMs?: number
  /** Told how late the event loop was, ms, when that kept replies from being read in time. */
  readonly onStall?: (lateMs: number) => void
  readonly waitingMax?: number
}

/** A CheckStore over a client that neither queues nor repeats commands (`createRedis`). */
export function createCheckStore(options: CheckStoreOptions): CheckStore {
  const { redis, onStall, deadlineMs = CHECK_DEADLINE_MS, waitingMax = WAITING_MAX } = options
  const common = {
    redis,
    scripts: new ServedScripts(redis),
    deadlineMs,
    onStall,
    waitingMax,
    targetsMax: BATCH_TARGETS_MAX,
  }
  const checks = new Batcher<CheckAnswer>({
    ...common,
    script: 'check',
    keysOf: (group) => {
      const { meta, hot, usage } = groupKeys(group)
      return [meta, hot, usage]
    },
    answer: answerChecks,
  })
  const returns = new Batcher<RefundAnswer>({
    ...common,
    script: 'giveBack',
    keysOf: (group) => {
      const { meta, usage } = groupKeys(group)
      return [meta, usage]
    },
    answer: answerReturns,
  })
  const releases = new Batcher<ReleaseAnswer>({
    ...common,
    script: 'release',
    keysOf: (group) => [groupKeys(group).meta],
    answer: answerReleases,
  })
  const otherwise = (check: SoleCheck): void => askBatcher(checks, check)
  const usual = new UsualChecks({ ...common, otherwise })
  const ask = (check: SoleCheck): void => {
    assertCost(check.cost)
    if (usual.takes(check)) usual.ask(check)
    else otherwise(check)
  }
  return {
    ask,
    check(check: GroupCheck, version: number) {
      const { group, targets, cost } = check
      assertCost(cost)
      const [target] = targets
      if (target === undefined || targets.length > 1 || target.limit.algorithm === 'concurrency') {
        return checks.call(check, version)
      }
      return new Promise((resolve, reject) => {
        const decided = (decision: LimitDecision, atUs: number): void =>
          resolve({ atUs, decisions: [decision] })
        ask({ group, target, cost, version, decided, failed: reject })
      })
    },
    async giveBack(check: GroupCheck, version: number, atUs: number) {
      assertCost(check.cost)
      await returns.call(check, version, { atUs, mark: null })
    },
    refund(check: RequestCheck, version: number, atUs: number) {
      assertCost(check.cost)
      const mark = refundKey(check.group, holderDigest(check.requestId))
      return returns.call(check, version, { atUs, mark })
    },
    release(check: RequestCheck, version: number) {
      return releases.call(check, version)
    },
  }
}

function askBatcher(batcher: Batcher<CheckAnswer>, sole: SoleCheck): void {
  const { group, target, cost, version } = sole
  batcher.call({ group, targets: [target], cost }, version).then(
    ({ atUs, decisions }) => {
      const [decision] = decisions
      assert(decision !== undefined, 'the script decides every target')
      sole.decided(decision, atUs)
    },
    (err: unknown) => sole.failed(err),
  )
}

function answerChecks(batch: Batch<CheckAnswer>, reply: unknown): void {
  const bytes = bytesOf(reply)
  const doubles = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const atUs = doubles.getFloat64(0, true)
  let position = DOUBLE_BYTES
  for (const { targets, resolve } of batch.waiting) {
    const decisions: LimitDecision[] = []
    for (let target = 0; target < targets; target++) {
      decisions.push(decisionAt(doubles, position))
      position += 3 * DOUBLE_BYTES
    }
    resolve({ atUs, decisions })
  }
  assert(position === bytes.length, 'a reply has one decision for each target')
}

const REFUND_OUTCOMES: ReadonlyMap<number, RefundAnswer['outcome']> = new Map([
  [1, 'refunded'],
  [0, 'repeated'],
  [-1, 'too_late'],
])

function answerReturns(batch: Batch<RefundAnswer>, reply: unknown): void {
  const doubles = unpackDoubles(bytesOf(reply))
  let position = 0
  for (const { targets, resolve } of batch.waiting) {
    const outcome = REFUND_OUTCOMES.get(doubles[position] ?? 1) ?? 'refunded'
    const credited = [...doubles.subarray(position + 1, position + 1 + targets)]
    position += 1 + targets
    resolve({ outcome, credited: credited.map((one) => one === 1) })
  }
  assert(position === doubles.length, 'a reply has one outcome for each target')
}

function answerReleases(batch: Batch<ReleaseAnswer>, reply: unknown): void {
  const doubles = unpackDoubles(bytesOf(reply))
  let position = 0
  for (const { targets, resolve } of batch.waiting) {
    resolve({ released: [...doubles.subarray(position, position + targets)] })
    position += targets
  }
  assert(position === doubles.length, 'a reply has one number for each target')
}

function decisionAt(doubles: DataView, position: number): LimitDecision {
  const remaining = doubles.getFloat64(position, true)
  const resetMs = doubles.getFloat64(position + DOUBLE_BYTES, true)
  const code = doubles.getFloat64(position + 2 * DOUBLE_BYTES, true)
  if (code === ALLOWED) {
    return { allowed: true, reason: null, remaining, resetMs, retryAfterMs: null }
  }
  const reason = code === EXCEEDS ? 'cost_exceeds_capacity' : 'limit'
  const retryAfterMs = code === EXCEEDS || code === NEVER ? null : code
  return { allowed: false, reason, remaining, resetMs, retryAfterMs }
}

/** What arrives here was parsed at the edge; the script refuses a wrong cost on its own account too. */
function assertCost(cost: number): void {
  assert(
    Number.isInteger(cost) && cost >= 0 && cost <= TOKENS_MAX,
    'a cost is a whole number of tokens',
  )
}
