/** What limits must be whose keys are counted in several parts (`shared/core/counter-parts.ts`). */
import { holdingOf } from '../core/enforced.ts'
import type { NumbersByLimit } from '../core/overrides.ts'

export interface ShardMisfit {
  readonly path: readonly (string | number)[]
  readonly message: string
}

interface Numbers {
  readonly capacity: number
  readonly burst?: number | undefined
}

interface ShardedLimit extends Numbers {
  readonly shards: number
  readonly algorithm: string
  readonly windowMs?: number | undefined
  readonly calendar?: unknown
  readonly candidate?: Numbers | undefined
}

/** What is wrong with the shards of a document's limits: by path, a message that says how to mend it. */
export function shardMisfits(document: {
  readonly mode: string
  readonly limits: readonly ShardedLimit[]
}): readonly ShardMisfit[] {
  const { mode, limits } = document
  const first = limits[0]?.shards ?? 1
  return limits.flatMap((limit, index) => {
    const at = ['limits', index] as const
    // One check goes to one part of all of them, so that they are decided in one step.
    const message =
      limit.shards === first
        ? whyNotSharded(limit, mode)
        : `is ${limit.shards} where the first limit has ${first}: all limits of a policy have as many`
    if (message !== null) return [{ path: [...at, 'shards'], message }]
    const { candidate } = limit
    return [
      ...under(at, numbersMisfits(limit, limit.shards)),
      ...(candidate === undefined
        ? []
        : under([...at, 'candidate'], numbersMisfits(candidate, limit.shards))),
    ]
  })
}

function whyNotSharded(limit: ShardedLimit, mode: string): string | null {
  if (limit.shards === 1) return null
  if (mode === 'eventual') return 'is not for mode "eventual", whose limits are small; leave it out'
  const held = { ...limit, windowMs: limit.windowMs ?? 1, calendar: limit.calendar ?? null }
  if (holdingOf({ mode }, held as Parameters<typeof holdingOf>[1]) === 'share') return null
  return 'is for windows under a day: of a longer one each region spends tokens that are given to the whole key; leave it out'
}

function under(
  at: readonly (string | number)[],
  misfits: readonly ShardMisfit[],
): readonly ShardMisfit[] {
  return misfits.map(({ path, message }) => ({ path: [...at, ...path], message }))
}

/** Numbers that stand in place of limits' own, of tiers and overrides; those of unknown limits are not looked at. */
export function shardedNumbersMisfits(
  numbers: NumbersByLimit,
  limits: readonly { readonly name: string; readonly shards?: number }[],
): readonly { readonly path: readonly string[]; readonly message: string }[] {
  return Object.entries(numbers).flatMap(([name, given]) => {
    const { shards = 1 } = limits.find((limit) => limit.name === name) ?? {}
    return numbersMisfits(given, shards).map(({ path, message }) => ({
      path: [name, ...path],
      message,
    }))
  })
}

/** Numbers that do not divide evenly would lose what is left over, and fewer tokens than parts would be none at all. */
export function numbersMisfits(
  { capacity, burst }: Numbers,
  shards: number,
): readonly { readonly path: readonly string[]; readonly message: string }[] {
  const given = [
    { field: 'capacity', tokens: capacity },
    ...(burst === undefined ? [] : [{ field: 'burst', tokens: burst }]),
  ]
  return given
    .filter(({ tokens }) => tokens % shards !== 0)
    .map(({ field, tokens }) => ({
      path: [field],
      message: `${tokens} does not divide evenly into ${shards} shards: give ${nearest(tokens, shards)}`,
    }))
}

function nearest(tokens: number, shards: number): string {
  const below = tokens - (tokens % shards)
  const above = below + shards
  if (above > Number.MAX_SAFE_INTEGER) return String(below)
  return below === 0 ? String(above) : `${below} or ${above}`
}
