import { execFile } from 'node:child_process'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import { createDatabase } from '../../shared/postgres/client.ts'
import { freePorts } from './free-ports.ts'
import { postgresAccount, postgresBinaries } from './postgres-binaries.ts'
import { POSTGRES_USER } from './postgres-server.ts'
import { startServer } from './server-process.ts'

/** Nothing waits for the disk: what a test asks is what the replica has, and both live on in memory. */
const SETTINGS = ['fsync=off', 'full_page_writes=off', 'shared_buffers=32MB']

/** A commit is answered once the replica has it. */
const PRIMARY_SETTINGS = ['synchronous_commit=on', 'synchronous_standby_names=*']

/** A primary with a streaming replica that it waits for at each commit. */
export interface PostgresPair {
  /** Of both servers, the primary first. */
  readonly url: string
  /** Of both, the replica first. */
  readonly turnedUrl: string
  readonly primaryUrl: string
  /** Ends the primary at once, as a host that fails does. */
  killPrimary(): Promise<void>
  /** Has the replica become a primary, which takes it a moment. */
  promote(): Promise<void>
  stop(): Promise<void>
}

export async function startPostgresPair(): Promise<PostgresPair> {
  const account = postgresAccount()
  const folder = await mkdtemp(join(tmpdir(), 'quota-postgres-pair-'))
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  const bin = await postgresBinaries(account, folder)
  const as = { ...account, cwd: folder }
  const run = async (command: string, args: readonly string[]) =>
    await promisify(execFile)(command, [...args], as)
  const [one, two] = [join(folder, 'one'), join(folder, 'two')]
  const initialise = ['-D', one, '-U', POSTGRES_USER, '-A', 'trust', '--no-sync']
  await run(join(bin, 'initdb'), [...initialise, '-E', 'UTF8', '--locale=C'])
  // A copy of a cluster that does not run; pg_basebackup does the same of one that does, and is not everywhere.
  await run('cp', ['-a', one, two])
  await writeFile(join(two, 'standby.signal'), '')
  const [onePort = 0, twoPort = 0] = await freePorts(2)
  const launch = (data: string, port: number, ready: string, settings: readonly string[]) =>
    startServer(
      join(bin, 'postgres'),
      ['-D', data, '-k', folder, '-h', '127.0.0.1', '-p', String(port)].concat(
        [...SETTINGS, ...settings].flatMap((setting) => ['-c', setting]),
      ),
      ready,
      as,
    )
  const primary = await launch(one, onePort, 'ready to accept connections', PRIMARY_SETTINGS)
  const conninfo = `primary_conninfo=host=127.0.0.1 port=${onePort} user=${POSTGRES_USER}`
  const replica = await launch(two, twoPort, 'ready to accept read', [conninfo])
  const urlOf = (hosts: string) => `postgresql://${POSTGRES_USER}@${hosts}/postgres`
  const primaryUrl = urlOf(`127.0.0.1:${onePort}`)
  return {
    url: `${urlOf(`127.0.0.1:${onePort},127.0.0.1:${twoPort}`)}?target_session_attrs=read-write`,
    turnedUrl: urlOf(`127.0.0.1:${twoPort},127.0.0.1:${onePort}`),
    primaryUrl,
    killPrimary: () => primary.stop('SIGQUIT'),
    async promote() {
      const db = createDatabase({ url: urlOf(`127.0.0.1:${twoPort}`), onIdleError: () => {} })
      await sql`select pg_promote(false)`.execute(db)
      await db.destroy()
    },
    async stop() {
      await Promise.all([primary.stop('SIGQUIT'), replica.stop('SIGQUIT')])
      await rm(folder, { recursive: true, force: true })
    },
  }
}
