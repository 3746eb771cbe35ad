import { readFileSync } from 'node:fs'
import { CliError, EXIT } from './errors.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Files of the authority that a plane is believed by, and of one's own certificate and its key. */
const FILES = { ca: 'QUOTAPLANE_CA_FILE', cert: 'QUOTAPLANE_CERT_FILE', key: 'QUOTAPLANE_KEY_FILE' }

/**
 * Has every `https:` request of this process use the certificates that the environment names, if it names any. Throws
 * `CliError` for a file that cannot be read, and for a certificate without its key.
 */
export async function useCertificates(env: Environment): Promise<void> {
  const named = Object.entries(FILES).filter(([, variable]) => env[variable])
  if (named.length === 0) return
  if (!env[FILES.cert] !== !env[FILES.key]) {
    const message = `${FILES.cert} and ${FILES.key} belong together: set both or none`
    throw new CliError(message, EXIT.usage)
  }
  const read = named.map(([part, variable]) => [part, contentOf(variable, env[variable] ?? '')])
  // Loaded only here: it takes longer than most commands do.
  const { Agent, setGlobalDispatcher } = await import('undici')
  setGlobalDispatcher(new Agent({ connect: Object.fromEntries(read) }))
}

function contentOf(variable: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (err) {
    const code = err instanceof Error && 'code' in err ? err.code : 'not readable'
    throw new CliError(`${variable}: cannot read ${path} (${code})`, EXIT.usage)
  }
}
