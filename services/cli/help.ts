/** Help beyond single commands: topics, and what stands below the help of every command. */
import type { Command } from 'commander'
import { CliError, EXIT } from './errors.ts'
import type { Io } from './io.ts'

/** How a command ends, unless it says otherwise. */
const EXIT_CODES = '0 done, 1 failed, 2 used wrongly, 3 a check was denied'

/** What commands read of their environment. `docs/cli.md` names the same. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  QUOTAPLANE_URL: 'admin of the plane, as --admin-url',
  QUOTAPLANE_TOKEN: 'bearer token, as --token',
  QUOTAPLANE_CONTEXT: 'a remembered plane, as --context',
  QUOTAPLANE_ENFORCER_URL: 'enforcer that `check` asks, as --enforcer-url',
  QUOTAPLANE_ENFORCER_TOKEN:
    'token with the scope quota:check for enforcers that ask for one, as --enforcer-token',
  QUOTAPLANE_DEBUG_TOKEN: 'token that lets `debug` look at an enforcer, as --debug-token',
  QUOTAPLANE_CA_FILE: 'certificates of the authority that vouches for the plane',
  QUOTAPLANE_CERT_FILE: 'certificate to show to the plane, with its key in QUOTAPLANE_KEY_FILE',
  QUOTAPLANE_KEY_FILE: 'key of the certificate in QUOTAPLANE_CERT_FILE',
  DATABASE_URL:
    'Postgres, for `up`, `demo` and `admin init`; for `admin migrate` as admins connect',
  DATABASE_MIGRATION_URL: 'Postgres as the owner of the schema, for `admin migrate`',
  XDG_CONFIG_HOME: 'folder of quotaplane/contexts.yaml (default: ~/.config)',
  NO_COLOR: 'anything but empty: print without colours',
}

/** What of it any command that talks to admin reads. */
const OF_ADMIN = ['QUOTAPLANE_URL', 'QUOTAPLANE_TOKEN', 'QUOTAPLANE_CONTEXT']

const TOPICS: Readonly<Record<string, { readonly title: string; readonly text: string }>> = {
  contexts: {
    title: 'which plane a command talks to',
    text: `A command talks to one plane. Which one, the first of these that is there:

  1. --admin-url, or QUOTAPLANE_URL; the token then is --token or QUOTAPLANE_TOKEN
  2. --context, or QUOTAPLANE_CONTEXT: a plane that \`context set\` remembered
  3. the current context, which \`context use\` chose
  4. the plane that \`quotaplane up\` runs on this machine
  5. http://127.0.0.1:7070

Contexts are kept in ~/.config/quotaplane/contexts.yaml, which only its owner may read. --token-file keeps a token out of
it. A token that belongs to one plane is never sent to another.

  $ quotaplane context set prod --admin-url https://admin.example.com --token-file ~/.quotaplane-token
  $ quotaplane context use prod
  $ quotaplane whoami --context prod`,
  },
  environment: { title: 'variables that commands read', text: environmentText() },
  'exit-codes': {
    title: 'how commands end',
    text: `  0  done
  1  failed; or something differs (diff), is amiss (doctor), is left out (import, export), is not applied yet (rollout)
  2  used wrongly; or it could not look (diff, doctor, rollout)
  3  a check was denied

Every message of a failure is on standard error, and standard output then holds no half of an answer.`,
  },
  output: {
    title: 'forms of what is printed',
    text: `  -o table   for people; --no-headers leaves the titles out
  -o json    one line, all that admin says; --json is the same
  -o yaml    the same for people and files; of policies and domains what \`apply\` takes
  -o name    what other commands call each thing, one a line, for scripts

--watch draws it again with every change until Ctrl-C; where nobody watches, in a pipe or a file, it prints JSON lines.

  $ quotaplane policy list -o name | xargs -n 1 quotaplane policy get -o json
  $ quotaplane shares --watch -o json | jq .limits`,
  },
  files: {
    title: 'documents that apply, diff and simulate read',
    text: `YAML or JSON with any number of documents, separated by ---. One without \`kind\` is a policy:

  domain: api
  name: per-tenant
  match: [{ key: tenant }]
  limits:
    - { name: per-second, algorithm: token_bucket, capacity: 10000, windowMs: 1000, split: { us-east-1: 60, eu-west-1: 40 } }
  ---
  kind: domain
  domain: api
  description: The public API. Search team, #search-oncall.
  labels: { team: search }

A folder stands for every .yaml, .yml and .json file in it, and - for standard input. What is wrong is told by file, line
and field, and then nothing is applied.`,
  },
}

function environmentText(): string {
  const widest = Math.max(...Object.keys(ENVIRONMENT).map((name) => name.length))
  const lines = Object.entries(ENVIRONMENT).map(
    ([name, meaning]) => `  ${name.padEnd(widest)}  ${meaning}`,
  )
  return ['A flag comes before its variable, and both before a context.', '', ...lines].join('\n')
}

const exitCodes = new WeakMap<Command, string>()

/** Says in its help how a command ends, where that is not as usual. */
export function withExitCodes(command: Command, codes: string): Command {
  exitCodes.set(command, codes)
  return command
}

/** Adds `quotaplane help …`, and below the help of every command how it ends and what it reads. */
export function addHelp(program: Command, io: Io): void {
  program.addHelpText('afterAll', ({ command }) => footerOf(command))
  program.helpCommand(false)
  program
    .command('help')
    .description('explain a command, or a topic: `help topics` lists them')
    .argument('[command-or-topic...]', 'such as policy apply, or contexts')
    .action((words: readonly string[]) => io.out.write(helpOn(program, words)))
}

function footerOf(command: Command): string {
  const lines = [`\nExit codes: ${exitCodes.get(command) ?? EXIT_CODES}.`]
  const flags = new Set(command.options.map(({ long }) => long))
  if (flags.has('--admin-url') && flags.has('--context')) {
    lines.push(`Environment: ${OF_ADMIN.join(', ')}.`)
  }
  lines.push('More: quotaplane help topics.')
  return lines.join('\n')
}

function helpOn(program: Command, words: readonly string[]): string {
  const [first] = words
  if (words.length === 1 && first !== undefined) {
    if (first === 'topics') return `${topicsText()}\n`
    const topic = Object.hasOwn(TOPICS, first) ? TOPICS[first] : undefined
    if (topic !== undefined) return `${first}: ${topic.title}\n\n${topic.text}\n`
  }
  let command = program
  for (const word of words) {
    const next = command.commands.find((one) => one.name() === word)
    if (next === undefined) {
      const message = `there is no command or topic "${words.join(' ')}": see quotaplane --help and quotaplane help topics`
      throw new CliError(message, EXIT.usage)
    }
    command = next
  }
  // Printed by the command itself, with all that stands around its help.
  command.outputHelp()
  return ''
}

function topicsText(): string {
  const widest = Math.max(...Object.keys(TOPICS).map((name) => name.length))
  const lines = Object.entries(TOPICS).map(
    ([name, { title }]) => `  quotaplane help ${name.padEnd(widest)}  ${title}`,
  )
  return ['Topics:', ...lines, '', 'quotaplane help COMMAND explains a command.'].join('\n')
}
