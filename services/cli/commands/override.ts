import type { Command } from 'commander'
import { z } from 'zod'
import { type OverrideReply, overrideListSchema } from '../../../shared/protocol/admin-replies.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, withOutput, withWatch } from '../output.ts'
import { parsePolicyId, policyPath } from '../policy-client.ts'
import { adminOf } from '../settings.ts'
import { grouped } from '../table.ts'
import {
  adminFlags,
  printJson,
  printLines,
  withAdminFlags,
  withExamples,
  withWriteFlags,
  writeFlags,
} from './common.ts'
import { tellPlan } from './plan.ts'

const listFlags = adminFlags.extend(outputFlags.shape)
const setFlags = writeFlags.extend({
  tier: z.string().optional(),
  capacity: z.array(z.string()).optional(),
  unlimited: z.literal(true).optional(),
  deny: z.literal(true).optional(),
  expires: z.string().optional(),
})

/** Adds `quotaplane override …`. */
export function addOverrideCommand(program: Command, io: Io): void {
  const override = program
    .command('override')
    .description('give single tenants a tier, numbers of their own, everything or nothing')
  addSet(override, io)
  addList(override, io)
  addRemove(override, io)
}

function addSet(override: Command, io: Io): void {
  const command = override
    .command('set')
    .description('set what one tenant of a policy has; its usage stays')
    .argument('<domain/name>', 'the policy')
    .argument('<value>', "value of the tenant's entry")
    .option('--tier <tier>', 'a tier of the policy')
    .option(
      '--capacity <limit=tokens:burst...>',
      'numbers of its own by limit; without a burst, as much',
    )
    .option('--unlimited', 'always allow it')
    .option('--deny', 'deny it everything')
    .option('--expires <time>', 'until then, such as 2027-01-31T00:00:00Z')
    .action(async (id: string, value: string, options: unknown) => {
      const flags = setFlags.parse(options)
      const { tier, capacity, unlimited, deny, expires: expiresAt } = flags
      const limits = capacity === undefined ? undefined : numbersOf(capacity)
      const body = { tier, limits, unlimited, deny, expiresAt }
      const path = overridePath(id, value)
      const client = adminOf(flags, io)
      if (flags.dryRun) {
        await tellPlan(client, { method: 'PUT', path, body }, flags, io)
        return
      }
      const answer = await client.call({ method: 'PUT', path, body })
      if (flags.json) printJson(io, answer.body)
      else printLines(io, [`${id} ${value} set`])
    })
  withExamples(withWriteFlags(command), [
    'quotaplane override set api/per-tenant acme --tier pro',
    'quotaplane override set api/per-tenant acme --capacity per-minute=900:1800 --expires 2027-01-31T00:00:00Z',
    'quotaplane override set api/per-tenant mallory --deny',
  ])
}

function addList(override: Command, io: Io): void {
  const command = override
    .command('list')
    .description('list the tenants that have other than their policy says')
    .argument('<domain/name>', 'the policy')
    .action(async (id: string, options: unknown) => {
      const flags = listFlags.parse(options)
      const { domain, name } = parsePolicyId(id)
      const path = `${policyPath(domain, name)}/overrides?limit=100`
      const client = adminOf(flags, io)
      await show(io, flags, async () => {
        const pages = await client.readPages(path, overrideListSchema)
        const overrides = pages.flatMap((page) => page.items)
        return {
          data: { overrides },
          headers: ['value', 'has', 'until'],
          rows: overrides.map(rowOf),
          names: overrides.map(({ value }) => value),
        }
      })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane override list api/per-tenant',
    'quotaplane override list api/per-tenant -o name',
  ])
}

function addRemove(override: Command, io: Io): void {
  const command = override
    .command('remove')
    .description('give a tenant what the policy says again')
    .argument('<domain/name>', 'the policy')
    .argument('<value>', "value of the tenant's entry")
    .action(async (id: string, value: string, options: unknown) => {
      const flags = writeFlags.parse(options)
      const client = adminOf(flags, io)
      const request = { method: 'DELETE', path: overridePath(id, value) } as const
      if (flags.dryRun) {
        await tellPlan(client, request, flags, io)
        return
      }
      await client.call(request)
      if (flags.json) printJson(io, { removed: value })
      else printLines(io, [`${id} ${value} removed`])
    })
  withExamples(withWriteFlags(command), ['quotaplane override remove api/per-tenant acme'])
}

function overridePath(id: string, value: string): string {
  const { domain, name } = parsePolicyId(id)
  return `${policyPath(domain, name)}/overrides/${encodeURIComponent(value)}`
}

/** `per-minute=900:1800` as numbers of that limit; admin says what is wrong with them. */
function numbersOf(texts: readonly string[]): Record<string, object> {
  return Object.fromEntries(
    texts.map((text) => {
      const [, limit, capacity, burst] = /^([^=]+)=(\d+)(?::(\d+))?$/.exec(text) ?? []
      if (limit === undefined) {
        throw new CliError(`numbers are given as limit=tokens, not "${text}"`, EXIT.usage)
      }
      return [
        limit,
        { capacity: Number(capacity), ...(burst !== undefined && { burst: Number(burst) }) },
      ]
    }),
  )
}

function rowOf({ value, tier, limits, deny, expiresAt }: OverrideReply): readonly string[] {
  return [value, hasOf({ tier, limits, deny }), expiresAt ?? '']
}

function hasOf({ tier, limits, deny }: Pick<OverrideReply, 'tier' | 'limits' | 'deny'>): string {
  if (tier !== undefined) return `tier ${tier}`
  if (limits === undefined) return deny === true ? 'nothing' : 'everything'
  return Object.entries(limits)
    .map(([limit, { capacity }]) => `${limit} ${grouped(capacity)}`)
    .join(', ')
}
