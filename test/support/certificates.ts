import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'

const run = promisify(execFile)
const POLL_MS = 20
const SCRIPT = join(PACKAGE_ROOT, 'deploy/tls/make-certificates.sh')

/** Certificates of one authority, made by the script that the repository ships. */
export interface Certificates {
  readonly folder: string
  /** PEM texts of `name`'s certificate and key, and of the authority. */
  of(name: string): { readonly ca: string; readonly cert: string; readonly key: string }
  readonly ca: string
  remove(): Promise<void>
}

/** `expired` are certificates whose time is over already. */
export async function makeCertificates(
  names: readonly string[],
  expired: readonly string[] = [],
): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), 'quotaplane-certificates-'))
  await run(SCRIPT, [folder, ...names])
  if (expired.length > 0) {
    await run(SCRIPT, [folder, ...expired], { env: { ...process.env, DAYS: '0' } })
    for (const name of expired) await untilOver(join(folder, `${name}.crt`))
  }
  const read = (file: string): string => readFileSync(join(folder, file), 'utf8')
  return {
    folder,
    ca: read('ca.crt'),
    of: (name) => ({ ca: read('ca.crt'), cert: read(`${name}.crt`), key: read(`${name}.key`) }),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

/** A certificate is good for all of the second that it names as its last. */
async function untilOver(path: string): Promise<void> {
  const { validTo } = new X509Certificate(readFileSync(path))
  while (Date.parse(validTo) + 1_000 > Date.now()) await delay(POLL_MS)
}
