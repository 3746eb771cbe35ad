import type { Command } from 'commander'
import { z } from 'zod'
import {
  callerSchema,
  SCOPES,
  type TokenReply,
  tokenCreatedSchema,
  tokenListSchema,
} from '../../../shared/protocol/tokens.ts'
import { parseReply } from '../admin-client.ts'
import { commaList } from '../arguments.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { outputFlags, show, withOutput, withWatch } from '../output.ts'
import { adminOf } from '../settings.ts'
import {
  adminFlags,
  wholeNumber,
  withAdminFlags,
  withExamples,
  withWriteFlags,
  writeFlags,
} from './common.ts'
import { carryOut, tellDone } from './plan.ts'

const EXPIRES_DAYS_MAX = 3_650

const createFlags = writeFlags.extend({
  scopes: z.array(z.string()),
  domains: z.array(z.string()).optional(),
  expiresInDays: z.number().optional(),
})
const showFlags = adminFlags.extend(outputFlags.shape)
const listFlags = showFlags.extend({ revoked: z.boolean().default(false) })

/** Adds `quotaplane token …` and `quotaplane whoami`. */
export function addTokenCommand(program: Command, io: Io): void {
  const token = program
    .command('token')
    .description('make, list and revoke tokens of the admin API')
  addCreate(token, io)
  addList(token, io)
  addRevoke(token, io)
  addWhoami(program, io)
}

function addCreate(token: Command, io: Io): void {
  const command = token
    .command('create')
    .description('make a token; it is printed this once')
    .argument('<name>', 'what the audit log calls it')
    .requiredOption('--scopes <scopes>', `separated by commas: ${SCOPES.join(', ')}`, commaList)
    .option('--domains <domains>', 'limit it to these domains (default: all)', commaList)
    .option('--expires-in-days <days>', 'end it by itself', wholeNumber(1, EXPIRES_DAYS_MAX))
    .action(async (name: string, options: unknown) => {
      const { scopes, domains, expiresInDays, ...flags } = createFlags.parse(options)
      const body = { name, scopes, domains, expiresInDays }
      const request = { method: 'POST', path: '/v1/tokens', body } as const
      await carryOut(adminOf(flags, io), request, flags, io, (reply) => {
        const created = parseReply(tokenCreatedSchema, reply)
        const may = created.scopes.join(', ')
        const told = `token ${name} (${created.id}) may ${may}; keep it, it is not shown again:`
        if (!flags.json) say(io.err, told)
        tellDone(io, flags, created, created.token)
      })
    })
  withExamples(withWriteFlags(command), [
    'quotaplane token create ci --scopes quota:read,quota:write --domains api --expires-in-days 90',
    'QUOTAPLANE_TOKEN=$(quotaplane token create me --scopes quota:admin) quotaplane whoami',
  ])
}

function addList(token: Command, io: Io): void {
  const command = token
    .command('list')
    .description('list the tokens that work')
    .option('--revoked', 'the revoked ones too')
    .action(async (options: unknown) => {
      const flags = listFlags.parse(options)
      await show(io, flags, async () => {
        const tokens = await readTokens(flags, flags.revoked, io)
        return {
          data: { tokens },
          headers: ['name', 'id', 'scopes', 'domains', 'last used', 'ends'],
          rows: tokens.map(rowOf),
          names: tokens.map(({ name }) => name),
        }
      })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane token list',
    'quotaplane token list --revoked -o yaml',
  ])
}

function addRevoke(token: Command, io: Io): void {
  const command = token
    .command('revoke')
    .description('revoke a token for good; every admin refuses it within seconds')
    .argument('<name-or-id>', 'as `token list` shows it')
    .action(async (which: string, options: unknown) => {
      const flags = writeFlags.parse(options)
      const tokens = await readTokens(flags, false, io)
      const found = tokens.find(({ id, name }) => id === which || name === which)
      if (found === undefined) {
        throw new CliError(
          `no token ${which} works: quotaplane token list shows those that do`,
          EXIT.failure,
        )
      }
      const path = `/v1/tokens/${encodeURIComponent(found.id)}`
      await carryOut(adminOf(flags, io), { method: 'DELETE', path }, flags, io, (revoked) =>
        tellDone(io, flags, revoked, `token ${found.name} revoked`),
      )
    })
  withExamples(withWriteFlags(command), [
    'quotaplane token revoke ci',
    'quotaplane token revoke ci --reason "the laptop is lost"',
  ])
}

function addWhoami(program: Command, io: Io): void {
  const command = program
    .command('whoami')
    .description('show whose token this is and what it may do')
    .action(async (options: unknown) => {
      const flags = showFlags.parse(options)
      const client = adminOf(flags, io)
      await show(io, flags, async () => {
        const answer = await client.call({ method: 'GET', path: '/v1/whoami' })
        const caller = parseReply(callerSchema, answer.body)
        const domains = caller.domains === null ? 'every domain' : caller.domains.join(', ')
        return {
          data: { url: client.url, ...caller },
          headers: ['actor', 'admin', 'scopes', 'domains'],
          rows: [[caller.actor, client.url, caller.scopes.join(','), domains]],
          names: [caller.actor],
        }
      })
    })
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane whoami',
    'quotaplane whoami --json',
  ])
}

async function readTokens(
  flags: z.infer<typeof adminFlags>,
  withRevoked: boolean,
  io: Io,
): Promise<readonly TokenReply[]> {
  const pages = await adminOf(flags, io).readPages(
    `/v1/tokens?revoked=${withRevoked}`,
    tokenListSchema,
  )
  return pages.flatMap((page) => page.items)
}

function rowOf(token: TokenReply): string[] {
  const { name, id, scopes, domains, lastUsedAt, expiresAt, revokedAt } = token
  const ends = revokedAt === null ? (expiresAt ?? 'never') : `revoked ${revokedAt}`
  return [name, id, scopes.join(','), domains?.join(',') ?? 'all', lastUsedAt ?? 'never', ends]
}
