import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findOrInstall } from '../../services/cli/plane/programs.ts'
import { freePorts } from './free-ports.ts'
import { startServer } from './server-process.ts'

export interface HaproxyServer {
  readonly url: string
  log(): string
  stop(): Promise<void>
}

/**
 * An HAProxy of one test file with an example's configuration and Lua: `replace` puts the test's addresses in place of
 * the examples', and each must be there; it listens where the example says `bind :8000`.
 */
export async function startHaproxy(options: {
  readonly folder: string
  readonly replace: Readonly<Record<string, string>>
}): Promise<HaproxyServer> {
  const program = await findOrInstall('haproxy', {
    env: process.env,
    isRoot: process.getuid?.() === 0,
    say: (line) => process.stderr.write(`${line}\n`),
  })
  const dir = await mkdtemp(join(tmpdir(), 'quotaplane-haproxy-'))
  const [port] = await freePorts(1)
  const replaced = new Map(
    Object.entries({ ...options.replace, 'bind :8000': `bind 127.0.0.1:${port}` }),
  )
  const unused = new Set(replaced.keys())
  for (const file of ['haproxy.cfg', 'quota.lua']) {
    let text = await readFile(join(options.folder, file), 'utf8')
    for (const [from, to] of replaced) {
      if (text.includes(from)) unused.delete(from)
      text = text.replaceAll(from, to)
    }
    await writeFile(join(dir, file), text)
  }
  if (unused.size > 0) throw new Error(`the example has no "${[...unused].join('", "')}"`)
  // A word of readiness comes only from a master, whose worker it is about.
  const args = ['-W', '-db', '-f', join(dir, 'haproxy.cfg')]
  const server = await startServer(program, args, 'Loading success', { cwd: dir })
  return {
    url: `http://127.0.0.1:${port}`,
    log: () => server.log(),
    async stop() {
      await server.stop('SIGTERM')
      await rm(dir, { recursive: true, force: true })
    },
  }
}
