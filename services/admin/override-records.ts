import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import type { OverrideDiff } from './override-diffs.ts'
import { overrideIdOf, overrideReplyOf } from './views/override.ts'

/** Enters in the history what became of the overrides of a policy. */
export function recordOverrides(
  plane: PlaneChange,
  policy: { readonly domain: string; readonly name: string },
  { set, removed, replaced }: OverrideDiff,
): void {
  const now = new Map(set.map((override) => [override.value, overrideReplyOf(override)]))
  const past = new Map(replaced.map((override) => [override.value, overrideReplyOf(override)]))
  plane.record({
    action: 'policy.override',
    objectKind: 'policy',
    objectId: `${policy.domain}/${policy.name}`,
    before: [...past.values()],
    after: [...now.values()],
    documents: [...now.keys(), ...removed].map((value) => ({
      kind: 'override',
      id: overrideIdOf(policy, value),
      before: past.get(value) ?? null,
      after: now.get(value) ?? null,
    })),
  })
}
