import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findOrInstall } from '../../services/cli/plane/programs.ts'
import { startServer } from './server-process.ts'

export interface NginxServer {
  readonly url: string
  log(): string
  stop(): Promise<void>
}

/** Temporary folders of nginx that are the system's unless told otherwise. */
const TEMP_PATHS = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']

/**
 * An nginx of one test file with an example's configuration: `replace` puts the test's addresses in place of the
 * example's, and each must be there; it listens where the example says `listen 8000`.
 */
export async function startNginx(options: {
  readonly example: string
  readonly port: number
  readonly replace: Readonly<Record<string, string>>
}): Promise<NginxServer> {
  const program = await findOrInstall('nginx', {
    env: process.env,
    isRoot: process.getuid?.() === 0,
    say: (line) => process.stderr.write(`${line}\n`),
  })
  const dir = await mkdtemp(join(tmpdir(), 'quotaplane-nginx-'))
  const temps = TEMP_PATHS.map((name) => `${name}_temp_path ${join(dir, name)};`)
  let config = await readFile(options.example, 'utf8')
  const replaced = {
    ...options.replace,
    'listen 8000;': `listen 127.0.0.1:${options.port};`,
    'http {': `http {\n  access_log off;\n  ${temps.join('\n  ')}`,
    'worker_processes auto;': 'worker_processes 1;',
  }
  for (const [from, to] of Object.entries(replaced)) {
    if (!config.includes(from)) throw new Error(`${options.example} has no "${from}"`)
    config = config.replaceAll(from, to)
  }
  const path = join(dir, 'nginx.conf')
  await writeFile(path, config)
  const main = `daemon off; pid ${join(dir, 'pid')}; error_log stderr notice;`
  const args = ['-p', dir, '-e', 'stderr', '-c', path, '-g', main]
  const server = await startServer(program, args, 'start worker process')
  return {
    url: `http://127.0.0.1:${options.port}`,
    log: () => server.log(),
    async stop() {
      await server.stop('SIGTERM')
      await rm(dir, { recursive: true, force: true })
    },
  }
}
