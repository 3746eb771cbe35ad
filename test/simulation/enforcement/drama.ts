/** A random play in the arena, decided by its seed: idle times, loans, ends, restarts, edits, and strikes around each. */
import type { Prng } from '../sim/world/prng.ts'
import { Prng as Random } from '../sim/world/prng.ts'
import { Arena, type ArenaLimit, type ArenaSite } from './arena.ts'
import type { EnforcementMutant } from './counter.ts'

const ACTS = 40

/** Tokens beyond the limit that the play came to; 0 when every rule holds. */
export function play(
  algorithm: ArenaLimit['algorithm'],
  seed: number,
  mutant: EnforcementMutant = {},
): number {
  const prng = new Random(seed).fork(algorithm)
  const limit = someLimit(algorithm, prng)
  const arena = new Arena(limit, 2 + prng.below(2), prng, mutant)
  for (let act = 0; act < ACTS && arena.excess === 0; act++) {
    prng.pick(ACTS_OF)(arena, prng)
    if (prng.chance(0.3)) arena.drain(someSite(arena, prng))
    if (prng.chance(0.2)) arena.drainAll()
  }
  return arena.excess
}

type Act = (arena: Arena, prng: Prng) => void

const ACTS_OF: readonly [Act, ...Act[]] = [
  idle,
  idle,
  lend,
  lend,
  lendAtEdge,
  (arena, prng) => arena.giveBack(someSite(arena, prng), travelUs(prng)),
  (arena, prng) => arena.lapse(someSite(arena, prng)),
  (arena, prng) => arena.restart(someSite(arena, prng)),
  (arena, prng) => arena.wipe(someSite(arena, prng)),
  (arena) => {
    for (const site of arena.sites) arena.recover(site)
  },
  (arena, prng) => arena.untrack(someSite(arena, prng)),
  (arena, prng) => arena.trickle(someSite(arena, prng), 1 + prng.below(3)),
  (arena, prng) => {
    if (prng.chance(0.3)) arena.change({ ...someNumbers(prng), ...kindOf(arena) })
  },
]

function idle(arena: Arena, prng: Prng): void {
  arena.pass(arena.windowUs * prng.pick([0.001, 0.1, 0.5, 1, 2.5]) * prng.next())
}

function lend(arena: Arena, prng: Prng): void {
  const [lender, borrower] = twoSites(arena, prng)
  if (prng.chance(0.5)) arena.drain(lender)
  arena.lend(lender, borrower, someLoan(prng))
}

/** The lender's window has just begun, the borrower's not. */
function lendAtEdge(arena: Arena, prng: Prng): void {
  const lender = arena.passToEdge()
  const borrower = arena.sites.find((site) => site !== lender)
  if (lender === undefined || borrower === undefined) return
  arena.lend(lender, borrower, { ...someLoan(prng), travelUs: 500 })
  arena.drain(borrower)
}

function someLoan(prng: Prng) {
  const ttlUs = prng.pick([200_000, 2_000_000, 10_000_000])
  return { part: prng.pick([0.3, 0.7, 1]), travelUs: travelUs(prng), ttlUs }
}

function travelUs(prng: Prng): number {
  return prng.pick([500, 60_000])
}

function someSite(arena: Arena, prng: Prng): ArenaSite {
  return arena.sites[prng.below(arena.sites.length)] ?? neverNone()
}

function twoSites(arena: Arena, prng: Prng): readonly [ArenaSite, ArenaSite] {
  const first = prng.below(arena.sites.length)
  const second = (first + 1 + prng.below(arena.sites.length - 1)) % arena.sites.length
  return [arena.sites[first] ?? neverNone(), arena.sites[second] ?? neverNone()]
}

function someLimit(algorithm: ArenaLimit['algorithm'], prng: Prng): ArenaLimit {
  return { algorithm, windowMs: prng.pick([1_000, 5_000]), ...someNumbers(prng) }
}

function someNumbers(prng: Prng): Pick<ArenaLimit, 'capacity' | 'burst'> {
  return { capacity: prng.pick([5, 20, 60]), burst: prng.pick([4, 10, 40]) }
}

function kindOf(arena: Arena): Pick<ArenaLimit, 'algorithm' | 'windowMs'> {
  return arena.kind
}

function neverNone(): never {
  throw new Error('an arena has at least two regions')
}
