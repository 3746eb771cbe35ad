/**
 * Why a policy governs a descriptor and others do not.
 *
 * Says of every policy of a domain what `matchPolicy` decides by looking only where it must; a test holds the two to the
 * same choice.
 */
import type { Descriptor, DescriptorEntry } from './descriptor.ts'
import type { MatchEntry } from './policy.ts'
import { emptyPatterns, isPattern, itemsMatching, patternItem } from './value-patterns.ts'

/** How an entry of a match takes the descriptor's; the first beats the second, and that the third. */
export type EntryMatch = 'exact' | 'wildcard' | 'any'

export type MatchVerdict =
  | { readonly kind: 'governs'; readonly how: readonly EntryMatch[] }
  /** Matches too, and a better one governs: `entry` is the first that it matches less closely, -1 for none. */
  | { readonly kind: 'lost'; readonly how: readonly EntryMatch[]; readonly entry: number }
  | { readonly kind: 'length' }
  | { readonly kind: 'mismatch'; readonly entry: number }

export interface Matchable {
  readonly id: number
  readonly match: readonly MatchEntry[]
}

export interface ExplainedMatch<T> {
  readonly policy: T
  readonly verdict: MatchVerdict
}

const CLOSENESS: Readonly<Record<EntryMatch, number>> = { exact: 0, wildcard: 1, any: 2 }

/**
 * Policies of one domain in the order in which they are tried: first those that match, the governing one before the
 * others, then those that do not, the nearest first.
 */
export function explainMatch<T extends Matchable>(
  policies: readonly T[],
  { entries }: Descriptor,
): readonly ExplainedMatch<T>[] {
  const matching: { readonly policy: T; readonly how: readonly EntryMatch[] }[] = []
  const others: ExplainedMatch<T>[] = []
  for (const policy of policies) {
    const how = policy.match.map((entry, place) => matchOf(entry, entries[place]))
    const entry = how.indexOf(null)
    if (policy.match.length !== entries.length) others.push({ policy, verdict: { kind: 'length' } })
    else if (entry >= 0) others.push({ policy, verdict: { kind: 'mismatch', entry } })
    else matching.push({ policy, how: how.filter((one) => one !== null) })
  }
  const ages = new PatternAges(policies)
  matching.sort((one, other) => {
    const place = differingPlace(one, other)
    if (place < 0) return one.policy.id - other.policy.id
    const closer = closenessAt(one, place) - closenessAt(other, place)
    return closer === 0 ? ages.of(one.policy, place) - ages.of(other.policy, place) : closer
  })
  const [best] = matching
  return [
    ...matching.map((one): ExplainedMatch<T> => {
      const { policy, how } = one
      if (best === undefined || one === best) return { policy, verdict: { kind: 'governs', how } }
      return { policy, verdict: { kind: 'lost', how, entry: differingPlace(best, one) } }
    }),
    ...others.sort(
      (one, other) => nearnessOf(other) - nearnessOf(one) || one.policy.id - other.policy.id,
    ),
  ]
}

function matchOf(entry: MatchEntry, asked: DescriptorEntry | undefined): EntryMatch | null {
  if (asked === undefined || asked.key !== entry.key) return null
  const { value } = entry
  if (value === undefined) return 'any'
  // Of a pattern only what it stands for counts: a value that is spelt like it is one of them.
  if (!isPattern(value)) return value === asked.value ? 'exact' : null
  const table = emptyPatterns<true>()
  patternItem(table, value, () => true)
  return itemsMatching(table, asked.value).length > 0 ? 'wildcard' : null
}

/** The first place at which two matches of one descriptor part. */
function differingPlace(
  one: { readonly policy: Matchable },
  other: { readonly policy: Matchable },
): number {
  return one.policy.match.findIndex(
    ({ value }, place) => value !== other.policy.match[place]?.value,
  )
}

function closenessAt({ how }: { readonly how: readonly EntryMatch[] }, place: number): number {
  return CLOSENESS[how[place] ?? 'any']
}

/** How old each wildcard is at its place below the entries before it: as old as the first policy that has it. */
class PatternAges {
  readonly #ages = new Map<string, number>()

  constructor(policies: readonly Matchable[]) {
    for (const { id, match } of policies) {
      for (const [place, { value }] of match.entries()) {
        if (value === undefined || !isPattern(value)) continue
        const key = keyOf(match, place)
        this.#ages.set(key, Math.min(id, this.#ages.get(key) ?? id))
      }
    }
  }

  of({ match }: Matchable, place: number): number {
    return this.#ages.get(keyOf(match, place)) ?? 0
  }
}

function keyOf(match: readonly MatchEntry[], place: number): string {
  return JSON.stringify(match.slice(0, place + 1).map(({ key, value }) => [key, value ?? null]))
}

function nearnessOf({ verdict }: ExplainedMatch<Matchable>): number {
  return verdict.kind === 'mismatch' ? verdict.entry : -1
}
