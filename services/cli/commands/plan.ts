import type { z } from 'zod'
import { type Plan, planSchema } from '../../../shared/protocol/plan.ts'
import { type AdminClient, type AdminRequest, describeField, parseReply } from '../admin-client.ts'
import type { Io } from '../io.ts'
import { grouped, table } from '../table.ts'
import { printJson, printLines, type writeFlags } from './common.ts'

/** A plan for people: what differs, what regions would have, who is over already, and what to mind. */
export function planLines(plan: Plan): string[] {
  const { changes, limits, keysOver, warnings } = plan
  if (changes.length === 0) return ['Nothing would change.']
  return [
    ...changes.map(({ text }) => text.trimEnd()),
    ...more(plan.changesLeftOut, 'changes'),
    ...shareLines(limits),
    ...more(plan.limitsLeftOut, 'limits'),
    ...keyLines(keysOver),
    ...warnings.map(
      ({ fix, ...warning }) =>
        `warning: ${describeField({ ...warning, ...(fix !== undefined && { fix }) })}`,
    ),
    'Dry run: nothing was changed.',
  ]
}

/** Changes something by one request, and tells what came of it; with --dry-run plans it, and tells that. */
export async function carryOut(
  client: AdminClient,
  request: AdminRequest,
  flags: Pick<z.infer<typeof writeFlags>, 'json' | 'dryRun'>,
  io: Io,
  tell: (body: unknown) => void | Promise<void>,
): Promise<void> {
  if (!flags.dryRun) {
    await tell((await client.call(request)).body)
    return
  }
  const { path } = request
  const planned = `${path}${path.includes('?') ? '&' : '?'}dryRun=true`
  const { body } = await client.call({ ...request, path: planned })
  const plan = parseReply(planSchema, body)
  if (flags.json) printJson(io, plan)
  else printLines(io, planLines(plan))
}

/** What a change came to: for programs, or in a line for people. */
export function tellDone(
  io: Io,
  flags: { readonly json: boolean },
  data: unknown,
  line: string,
): void {
  if (flags.json) printJson(io, data)
  else printLines(io, [line])
}

function shareLines(limits: Plan['limits']): string[] {
  if (limits.length === 0) return []
  const rows = limits.flatMap(({ domain, policy, limit, change, regions }) =>
    regions.map(({ region, before, after }) => [
      `${domain}/${policy}/${limit}`,
      change,
      region,
      tokensOf(before),
      tokensOf(after),
    ]),
  )
  return ['', ...table(['limit', 'change', 'region', '>tokens before', '>after'], rows)]
}

function tokensOf(part: { readonly tokens: number } | null): string {
  return part === null ? '-' : grouped(part.tokens)
}

function keyLines(keys: Plan['keysOver']): string[] {
  if (keys.length === 0) return []
  const rows = keys.map(({ domain, policy, limit, key, used, capacity }) => [
    `${domain}/${policy}/${limit}`,
    key,
    grouped(used),
    grouped(capacity),
  ])
  return ['', ...table(['over the new limit already', 'key', '>used', '>limit'], rows)]
}

function more(count: number, what: string): string[] {
  return count > 0 ? [`and ${count} more ${what}`] : []
}
