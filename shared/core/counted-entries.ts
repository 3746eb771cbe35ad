import type { DescriptorEntry } from './descriptor.ts'
import type { MatchEntry } from './policy.ts'

/** Stands for every value in the name of a counter that all of them share; what a bare key matches. */
const ANY_VALUE = '*'

/**
 * The entries that name a descriptor's counter under the policy that governs it: its own, but for those that all
 * values share, which have the match's value. Also decides the slot group, so that such a counter has one place.
 */
export function countedEntries(
  match: readonly MatchEntry[],
  entries: readonly DescriptorEntry[],
): readonly DescriptorEntry[] {
  if (!match.some(({ shared }) => shared === true)) return entries
  return entries.map((entry, place) => {
    const { shared, value = ANY_VALUE } = match[place] ?? {}
    return shared === true ? { key: entry.key, value } : entry
  })
}
