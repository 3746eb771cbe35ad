import { execFile } from 'node:child_process'
import { chown, mkdtemp, rm } from 'node:fs/promises'
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
  /** Ends the server and removes its data. */
  stop(): Promise<void>
}

/** Starts a real PostgreSQL with an empty cluster in a temporary folder. */
export async function startPostgres(): Promise<PostgresServer> {
  const account = postgresAccount()
  const folder = await mkdtemp(join(tmpdir(), 'quota-postgres-'))
  const bin = await postgresBinaries(account, folder)
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  const data = join(folder, 'data')
  const as = { ...account, cwd: folder }
  const initialise = ['-D', data, '-U', POSTGRES_USER, '-A', 'trust', '--no-sync']
  await promisify(execFile)(join(bin, 'initdb'), [...initialise, '-E', 'UTF8', '--locale=C'], as)
  const args = ['-D', data, '-k', folder, '-h', '']
  for (const setting of THROWAWAY_SETTINGS) args.push('-c', setting)
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
    async stop() {
      await halt()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
