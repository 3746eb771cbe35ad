/** How an explanation is asked for and told in words, the same on a terminal and on a page. */
import type { DescriptorEntry } from '../core/descriptor.ts'
import type { ExplainReply } from './explain.ts'

/** What is said between a descriptor and the policy that governs it. */
export const EXPLAIN_OUTCOMES: Readonly<Record<ExplainReply['outcome'], string>> = {
  limited: 'is limited by',
  denied: 'is denied by',
  unlimited: 'is not limited, by',
  watched: 'is watched and never denied by',
  unmatched: 'is not limited: no policy governs it',
}

/** The entries of `key=value,key=value`, in order, or the part that is none. */
export function parseEntries(
  text: string,
): readonly DescriptorEntry[] | { readonly wrong: string } {
  const entries: DescriptorEntry[] = []
  // A comma parts entries only where a key follows, so that most values may have one.
  for (const part of text.split(/,(?=[^,=]+=)/)) {
    const at = part.indexOf('=')
    if (at < 1 || at === part.length - 1) return { wrong: part }
    entries.push({ key: part.slice(0, at).trim(), value: part.slice(at + 1) })
  }
  return entries
}
