import { execFile } from 'node:child_process'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { postgresAccount, postgresBinaries } from './postgres-binaries.ts'
import { type ServerProcess, startServer } from './server-process.ts'

export const POSTGRES_USER = 'quota'

/** The data is thrown away, so nothing waits for the disk. */
const THROWAWAY_SETTINGS = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'shared_buffers=32MB',
]

export interface PostgresServer {
  /** Folder of its Unix socket; it listens on no TCP port. The same after a restart. */
  readonly socketFolder: string
  urlOf(database: string): string
  log(): string
  /** Freezes the server process and with it new connections. */
  pause(): void
  resume(): void
  /** Ends the server and keeps its data. */
  halt(): Promise<void>
  start(): Promise<void>
  restart(): Promise<void>
  /** Ends it at once, as a host that fails does, and starts it again: what it had not written is gone. */
  crash(): Promise<void>
  /** Ends the server and removes its data. */
  stop(): Promise<void>
}

/** TLS of a server, PEM texts. Its clients must show a certificate of `clientCa`. */
export interface PostgresTls {
  readonly port: number
  readonly cert: string
  readonly key: string
  readonly clientCa: string
}

/**
 * Starts a real PostgreSQL with an empty cluster in a temporary folder; with `tls` it listens on TCP as well. `settings`
 * such as `synchronous_commit=on` come after those that spare the disk.
 */
export async function startPostgres(
  tls?: PostgresTls,
  settings: readonly string[] = [],
): Promise<PostgresServer> {
  const account = postgresAccount()
  const folder = await mkdtemp(join(tmpdir(), 'quota-postgres-'))
  const bin = await postgresBinaries(account, folder)
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  const data = join(folder, 'data')
  const as = { ...account, cwd: folder }
  const initialise = ['-D', data, '-U', POSTGRES_USER, '-A', 'trust', '--no-sync']
  await promisify(execFile)(join(bin, 'initdb'), [...initialise, '-E', 'UTF8', '--locale=C'], as)
  const args = ['-D', data, '-k', folder]
  args.push(...(tls === undefined ? ['-h', ''] : await tlsArguments(tls, folder, account)))
  for (const setting of [...THROWAWAY_SETTINGS, ...settings]) args.push('-c', setting)
  const launch = (): Promise<ServerProcess> =>
    startServer(join(bin, 'postgres'), args, 'ready to accept connections', as)

  let server = await launch()
  const halt = (): Promise<void> => server.stop('SIGINT')
  const start = async (): Promise<void> => {
    server = await launch()
  }
  return {
    socketFolder: folder,
    urlOf: (database) => `postgresql://${POSTGRES_USER}@/${database}?host=${folder}`,
    log: () => server.log(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    halt,
    start,
    async restart() {
      await halt()
      await start()
    },
    async crash() {
      await server.stop('SIGQUIT')
      await start()
    },
    async stop() {
      await halt()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** What is not TLS, or has no certificate of the authority, is not let in over TCP. */
async function tlsArguments(
  tls: PostgresTls,
  folder: string,
  account: { readonly uid: number; readonly gid: number } | undefined,
): Promise<string[]> {
  const files = { ssl_cert_file: tls.cert, ssl_key_file: tls.key, ssl_ca_file: tls.clientCa }
  const args = ['-h', '127.0.0.1', '-p', String(tls.port), '-c', 'ssl=on']
  for (const [setting, text] of Object.entries(files)) {
    const path = join(folder, setting)
    await writeFile(path, text, { mode: 0o600 })
    if (account !== undefined) await chown(path, account.uid, account.gid)
    args.push('-c', `${setting}=${path}`)
  }
  const rules = 'local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n'
  await writeFile(join(folder, 'data', 'pg_hba.conf'), rules)
  return args
}
