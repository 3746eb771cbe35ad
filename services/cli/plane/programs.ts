import { execFile } from 'node:child_process'
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Downloading and unpacking two packages; far beyond what a slow mirror takes. */
const INSTALL_TIMEOUT_MS = 240_000

/** Where servers live that an ordinary user's PATH may lack: Debian keeps nats-server in /usr/sbin. */
const EXTRA_FOLDERS = ['/usr/sbin', '/usr/local/sbin', '/usr/local/bin', '/opt/homebrew/bin']

/** Debian asks this script whether a package may start its service; ours answers no (101). */
const POLICY_SCRIPT = '/usr/sbin/policy-rc.d'

const SERVERS = ['redis-server', 'nats-server'] as const
type ServerName = (typeof SERVERS)[number]

/** What tests need beside the servers: gateways to try, a check of alert rules, a browser. */
const TEST_PROGRAMS = ['nginx', 'haproxy', 'promtool', 'chromium'] as const

/** What can be installed. */
type ProgramName = ServerName | (typeof TEST_PROGRAMS)[number]

/** Paths of the two servers that the plane starts itself. */
export type ServerPaths = Readonly<Record<ServerName, string>>

interface PackageManager {
  readonly command: string
  /** Whether it installs for the whole system and so must run as root. */
  readonly needsRoot: boolean
  readonly packages: Readonly<Record<ProgramName, string>>
  readonly refresh: readonly string[] | null
  readonly install: readonly string[]
}

const APT: PackageManager = {
  command: 'apt-get',
  needsRoot: true,
  packages: {
    'redis-server': 'redis-server',
    'nats-server': 'nats-server',
    nginx: 'nginx-light',
    haproxy: 'haproxy',
    promtool: 'prometheus',
    chromium: 'chromium',
  },
  refresh: ['update', '-qq'],
  install: ['install', '-y', '-qq', '--no-install-recommends'],
}

const MANAGERS: readonly PackageManager[] = [
  APT,
  {
    command: 'apk',
    needsRoot: true,
    packages: {
      'redis-server': 'redis',
      'nats-server': 'nats-server',
      nginx: 'nginx',
      haproxy: 'haproxy',
      promtool: 'prometheus',
      chromium: 'chromium',
    },
    refresh: null,
    install: ['add', '--no-cache'],
  },
  {
    command: 'brew',
    needsRoot: false,
    packages: {
      'redis-server': 'redis',
      'nats-server': 'nats-server',
      nginx: 'nginx',
      haproxy: 'haproxy',
      promtool: 'prometheus',
      chromium: 'chromium',
    },
    refresh: null,
    install: ['install'],
  },
]

export interface FindOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly isRoot: boolean
  readonly say: (line: string) => void
}

/**
 * Finds redis-server and nats-server, and has the system's package manager install what is missing.
 *
 * Says so in one line before it installs. Where it cannot install, it rejects with what the reader has to type.
 */
export async function findServers(options: FindOptions): Promise<ServerPaths> {
  const missing = SERVERS.filter((name) => findProgram(name, options.env) === null)
  if (missing.length > 0) await install(missing, options)
  return {
    'redis-server': need('redis-server', options),
    'nats-server': need('nats-server', options),
  }
}

/** The program's path, installed like the servers of a plane if it is missing. */
export async function findOrInstall(name: ProgramName, options: FindOptions): Promise<string> {
  if (findProgram(name, options.env) === null) await install([name], options)
  return need(name, options)
}

/** The program's path: from the PATH, else from the usual folders; null when it is not there. */
export function findProgram(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
): string | null {
  const folders = [...(env['PATH'] ?? '').split(delimiter), ...EXTRA_FOLDERS]
  for (const folder of folders) {
    const path = join(folder, name)
    if (folder !== '' && isExecutable(path)) return path
  }
  return null
}

function need(name: ProgramName, options: FindOptions): string {
  const path = findProgram(name, options.env)
  if (path === null) throw new Error(`${name} is still not on the PATH after installing it`)
  return path
}

async function install(missing: readonly ProgramName[], options: FindOptions): Promise<void> {
  const manager = MANAGERS.find(({ command }) => findProgram(command, options.env) !== null)
  const isAllowed = manager !== undefined && manager.needsRoot === options.isRoot
  if (!isAllowed) throw new Error(adviceFor(missing, manager))
  const packages = missing.map((name) => manager.packages[name])
  const why = packages.length > 1 ? 'they are not here yet' : 'it is not here yet'
  options.say(`Installing ${packages.join(' and ')} with ${manager.command}, as ${why}`)
  try {
    await withoutServiceStart(manager, () => installPackages(manager, packages, options))
  } catch (err) {
    const message = err instanceof Error ? err.message : String(err)
    throw new Error(`${adviceFor(missing, manager)}\n(trying it here failed: ${message.trim()})`)
  }
  if (manager === APT) await disableServices(packages, options)
}

async function installPackages(
  manager: PackageManager,
  packages: readonly string[],
  options: FindOptions,
): Promise<void> {
  const command = findProgram(manager.command, options.env) ?? manager.command
  const env = { ...options.env, DEBIAN_FRONTEND: 'noninteractive' }
  const call = (args: readonly string[]): Promise<unknown> =>
    run(command, [...args], { env, timeout: INSTALL_TIMEOUT_MS, maxBuffer: 64 * 1024 * 1024 })
  const { refresh } = manager
  if (refresh === null) {
    await call([...manager.install, ...packages])
    return
  }
  // A fresh image has no package lists; a machine that has them needs no refresh.
  await call([...manager.install, ...packages]).catch(async () => {
    await call(refresh)
    await call([...manager.install, ...packages])
  })
}

/** Keeps Debian's packages from starting a Redis and a NATS of the system while they are installed. */
async function withoutServiceStart(
  manager: PackageManager,
  work: () => Promise<void>,
): Promise<void> {
  const isOurs = manager === APT && !existsSync(POLICY_SCRIPT)
  if (isOurs) writeFileSync(POLICY_SCRIPT, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    await work()
  } finally {
    if (isOurs) rmSync(POLICY_SCRIPT, { force: true })
  }
}

/** Without this the system would start its own Redis and NATS at the next boot on our account. */
async function disableServices(packages: readonly string[], options: FindOptions): Promise<void> {
  if (!existsSync('/run/systemd/system')) return
  const systemctl = findProgram('systemctl', options.env)
  if (systemctl === null) return
  await run(systemctl, ['disable', ...packages]).catch(() => {
    options.say(`The services ${packages.join(' and ')} may start at the next boot`)
  })
}

function adviceFor(missing: readonly ProgramName[], manager: PackageManager | undefined): string {
  const names = missing.join(' and ')
  const verb = missing.length > 1 ? 'are' : 'is'
  if (manager === undefined) {
    const what = missing.some((name) => TEST_PROGRAMS.some((one) => one === name))
      ? names
      : 'Redis 7 or later and NATS server 2.9 or later'
    return `${names} ${verb} not installed. Install ${what}, and put them on the PATH.`
  }
  const packages = missing.map((name) => manager.packages[name]).join(' ')
  const sudo = manager.needsRoot ? 'sudo ' : ''
  return `${names} ${verb} not installed. Please run: ${sudo}${manager.command} ${manager.install[0]} ${packages}`
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
