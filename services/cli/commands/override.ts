import type { Command } from 'commander'
import { z } from 'zod'
import { type OverrideReply, overrideListSchema } from '../../../shared/protocol/admin-replies.ts'
import { numbersOf, overridePath, parsePolicyId, policyPath } from '../arguments.ts'
import { CliError, EXIT } from '../errors.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { adminOf } from '../settings.ts'
import { grouped } from '../table.ts'
import { adminFlags, withAdminFlags, withExamples, withWriteFlags, writeFlags } from './common.ts'
import { carryOut, tellDone } from './plan.ts'

const listFlags = adminFlags.extend(outputFlags.shape)
const setFlags = writeFlags.extend({
  tier: z.string().optional(),
  capacity: z.record(z.string(), z.unknown()).optional(),
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
      numbersOf,
    )
    .option('--unlimited', 'always allow it')
    .option('--deny', 'deny it everything')
    .option('--expires <time>', 'until then, such as 2027-01-31T00:00:00Z')
    .action(async (id: string, value: string, options: unknown) => {
      const flags = setFlags.parse(options)
      const { tier, capacity: limits, unlimited, deny, expires: expiresAt } = flags
      const rules = [tier, limits, unlimited, deny].filter((rule) => rule !== undefined)
      if (rules.length !== 1) {
        const message = 'say what the tenant has: one of --tier, --capacity, --unlimited and --deny'
        throw new CliError(message, EXIT.usage)
      }
      const body = { tier, limits, unlimited, deny, expiresAt }
      const request = { method: 'PUT', path: overridePath(id, value), body } as const
      await carryOut(adminOf(flags, io), request, flags, io, (override) =>
        tellDone(io, flags, override, `${id} ${value} set`),
      )
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
      const policy = parsePolicyId(id)
      const path = `${policyPath(policy)}/overrides?limit=100`
      const client = adminOf(flags, io)
      const read = async (): Promise<View> => {
        const pages = await client.readPages(path, overrideListSchema)
        const overrides = pages.flatMap((page) => page.items)
        return {
          data: { overrides },
          headers: ['value', 'has', 'until'],
          rows: overrides.map(rowOf),
          names: overrides.map(({ value }) => value),
        }
      }
      const live = { client, events: ['revisions'], domain: policy.domain } as const
      await show(io, flags, read, { live })
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
      const request = { method: 'DELETE', path: overridePath(id, value) } as const
      await carryOut(adminOf(flags, io), request, flags, io, () =>
        tellDone(io, flags, { removed: value }, `${id} ${value} removed`),
      )
    })
  withExamples(withWriteFlags(command), ['quotaplane override remove api/per-tenant acme'])
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
