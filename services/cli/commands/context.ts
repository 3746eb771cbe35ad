import type { Command } from 'commander'
import { z } from 'zod'
import { NAME_PATTERN } from '../../../shared/protocol/policy.ts'
import {
  type Context,
  contextsPath,
  findContext,
  readContexts,
  writeContexts,
} from '../contexts.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { outputFlags, show, withOutput } from '../output.ts'
import { withExamples } from './common.ts'

const setFlags = z.object({
  adminUrl: z.string(),
  enforcerUrl: z.string().optional(),
  token: z.string().optional(),
  tokenFile: z.string().optional(),
})

/** Adds `quotaplane context …`. */
export function addContextCommand(program: Command, io: Io): void {
  const context = program
    .command('context')
    .description('remember the planes you work with, and choose the one that commands talk to')
  addSet(context, io)
  addUse(context, io)
  addList(context, io)
  addDelete(context, io)
}

function addSet(context: Command, io: Io): void {
  const command = context
    .command('set')
    .description(
      'remember a plane, or change what is remembered; the first becomes the current one',
    )
    .argument('<name>', 'what you call it')
    .requiredOption('--admin-url <url>', 'its admin')
    .option('--enforcer-url <url>', 'an enforcer of it, for `quotaplane check`')
    .option('--token <token>', 'bearer token; --token - reads it from standard input')
    .option('--token-file <path>', 'a file that holds the token, read each time')
    .action(async (name: string, options: unknown) => {
      const { token, ...flags } = setFlags.parse(options)
      if (!NAME_PATTERN.test(name)) {
        throw new CliError(`"${name}" is not a usable name: use a-z, 0-9 and hyphens`, EXIT.usage)
      }
      const given = token === '-' ? (await io.readStdin()).trim() : token
      if (given !== undefined && flags.tokenFile !== undefined) {
        throw new CliError('give --token or --token-file, not both', EXIT.usage)
      }
      const { contexts, current = name } = readContexts(io.env)
      writeContexts(io.env, {
        current,
        contexts: { ...contexts, [name]: contextOf({ ...flags, token: given }) },
      })
      say(
        io.err,
        `context ${name} saved in ${contextsPath(io.env)}${current === name ? '; it is the current one' : ''}`,
      )
    })
  withExamples(command, [
    'quotaplane context set prod --admin-url https://admin.example.com --token-file ~/.quotaplane-token',
    'pass show quotaplane | quotaplane context set prod --admin-url https://admin.example.com --token -',
  ])
}

/** Undefined fields would be written as nulls. */
function contextOf(flags: z.infer<typeof setFlags>): Context {
  for (const url of [flags.adminUrl, flags.enforcerUrl]) {
    if (url === undefined || (/^https?:\/\//.test(url) && URL.canParse(url))) continue
    throw new CliError(`"${url}" is not an http:// or https:// URL`, EXIT.usage)
  }
  const { adminUrl, enforcerUrl, token, tokenFile } = flags
  return {
    adminUrl,
    ...(enforcerUrl !== undefined && { enforcerUrl }),
    ...(token !== undefined && { token }),
    ...(tokenFile !== undefined && { tokenFile }),
  }
}

function addUse(context: Command, io: Io): void {
  const command = context
    .command('use')
    .description('talk to this plane unless a command says otherwise; - goes back to the local one')
    .argument('<name>', 'a context, or -')
    .action((name: string) => {
      const { contexts } = readContexts(io.env)
      if (name === '-') {
        writeContexts(io.env, { contexts })
        say(io.err, 'commands talk to the local plane')
        return
      }
      const { adminUrl } = findContext(io.env, name) ?? { adminUrl: '' }
      writeContexts(io.env, { current: name, contexts })
      say(io.err, `commands talk to ${name} (${adminUrl})`)
    })
  withExamples(command, ['quotaplane context use prod', 'quotaplane context use -'])
}

function addList(context: Command, io: Io): void {
  const command = context
    .command('list')
    .description('list the contexts; the current one is marked with *')
    .action(async (options: unknown) => {
      const { current, contexts } = readContexts(io.env)
      const rows = Object.entries(contexts).map(([name, { adminUrl, token, tokenFile }]) => ({
        name,
        isCurrent: name === current,
        adminUrl,
        token: tokenFile ?? (token === undefined ? 'none' : 'kept here'),
      }))
      await show(io, outputFlags.parse(options), () => ({
        data: { contexts: rows },
        headers: ['', 'name', 'admin', 'token'],
        rows: rows.map((row) => [row.isCurrent ? '*' : '', row.name, row.adminUrl, row.token]),
        names: rows.map(({ name }) => name),
      }))
    })
  withExamples(withOutput(command), ['quotaplane context list', 'quotaplane context list --json'])
}

function addDelete(context: Command, io: Io): void {
  const command = context
    .command('delete')
    .description('forget a plane')
    .argument('<name>', 'a context')
    .action((name: string) => {
      findContext(io.env, name)
      const { current, contexts } = readContexts(io.env)
      const { [name]: _forgotten, ...rest } = contexts
      const kept = current === name ? undefined : current
      writeContexts(io.env, { ...(kept !== undefined && { current: kept }), contexts: rest })
      say(io.err, `context ${name} forgotten`)
    })
  withExamples(command, ['quotaplane context delete prod'])
}
