import type { Override, OverrideRule } from '../../../shared/core/overrides.ts'
import type { PolicyKey } from '../../../shared/postgres/policies.ts'
import type { OverrideReply } from '../../../shared/protocol/admin-replies.ts'

/** Names an override in the history of revisions; no domain or policy has a space in its name. */
export function overrideIdOf({ domain, name }: PolicyKey, value: string): string {
  return `${domain}/${name} ${value}`
}

/** An override as admin shows it, and as it can be put again. */
export function overrideReplyOf({ value, rule, expiresAtMs }: Override): OverrideReply {
  return {
    value,
    ...shownRule(rule),
    ...(expiresAtMs !== undefined && { expiresAt: new Date(expiresAtMs).toISOString() }),
  }
}

function shownRule(rule: OverrideRule): Omit<OverrideReply, 'value' | 'expiresAt'> {
  if (rule.kind === 'tier') return { tier: rule.tier }
  if (rule.kind === 'numbers') return { limits: { ...rule.limits } }
  return rule.kind === 'deny' ? { deny: true } : { unlimited: true }
}
