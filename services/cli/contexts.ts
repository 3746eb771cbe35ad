/**
 * The planes that a person works with, by name, in one YAML file under the configuration folder.
 *
 * The file may hold tokens, so only its owner may read it; one that others can read is refused rather than used.
 */
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { parse, stringify } from 'yaml'
import { z } from 'zod'
import { plainWords } from '../../shared/protocol/plain-words.ts'
import { NAME_PATTERN } from '../../shared/protocol/policy.ts'
import { CliError, EXIT } from './errors.ts'

const httpUrl = z.string().regex(/^https?:\/\//, { error: 'must be an http:// or https:// URL' })

const contextSchema = z.strictObject({
  adminUrl: httpUrl,
  enforcerUrl: httpUrl.optional(),
  token: z.string().optional(),
  /** A file whose content is the token, for those that another program keeps fresh. */
  tokenFile: z.string().optional(),
})
export type Context = z.infer<typeof contextSchema>

const fileSchema = z.strictObject({
  current: z.string().optional(),
  contexts: z.record(z.string().regex(NAME_PATTERN), contextSchema).default({}),
})
export type Contexts = z.infer<typeof fileSchema>

type Environment = Readonly<Record<string, string | undefined>>

/** Bits of a file's mode that let anybody but its owner read or write it. */
const OTHERS = 0o077

export function contextsPath(env: Environment): string {
  const folder = env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config')
  return join(folder, 'quotaplane', 'contexts.yaml')
}

/** What the file holds; no contexts where there is none. Throws on a file that is damaged or open to others. */
export function readContexts(env: Environment): Contexts {
  const path = contextsPath(env)
  const text = readOwn(path)
  if (text === null) return { contexts: {} }
  let value: unknown
  try {
    value = parse(text) ?? {}
  } catch (err) {
    const [line] = String(err instanceof Error ? err.message : err).split('\n')
    throw new CliError(`${path}: ${line}`)
  }
  const parsed = fileSchema.safeParse(value, { error: plainWords })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new CliError(`${path}: ${issue?.path.join('.')}: ${issue?.message}`)
}

/** Replaces the file in one step, so that a reader sees the old one or the new one. */
export function writeContexts(env: Environment, contexts: Contexts): void {
  const path = contextsPath(env)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${path}.${process.pid}`
  try {
    writeFileSync(draft, stringify(contexts), { mode: 0o600 })
    // The mode of an earlier draft with this name would have stayed.
    chmodSync(draft, 0o600)
    renameSync(draft, path)
  } finally {
    rmSync(draft, { force: true })
  }
}

/** The context of that name, or the current one; null where neither is asked for. */
export function findContext(env: Environment, name: string | undefined): Context | null {
  const { contexts, current } = readContexts(env)
  const wanted = name ?? current
  if (wanted === undefined) return null
  const found = Object.hasOwn(contexts, wanted) ? contexts[wanted] : undefined
  if (found !== undefined) return found
  const known = Object.keys(contexts)
  const hint = known.length === 0 ? 'there are none yet' : `there are ${known.join(', ')}`
  throw new CliError(
    `there is no context ${wanted}: ${hint} (quotaplane context set makes one)`,
    EXIT.usage,
  )
}

/** The token of a context; its file is read anew each time. */
export function tokenOf({ token, tokenFile }: Context): string | null {
  if (tokenFile === undefined) return token ?? null
  try {
    return readFileSync(tokenFile, 'utf8').trim()
  } catch (err) {
    throw new CliError(`the token file cannot be read: ${err instanceof Error ? err.message : err}`)
  }
}

function readOwn(path: string): string | null {
  let mode: number
  try {
    mode = statSync(path).mode
  } catch {
    return null // Nobody has made a context yet.
  }
  if ((mode & OTHERS) !== 0) {
    throw new CliError(`${path} may hold tokens and others can read it: chmod 600 ${path}`)
  }
  return readFileSync(path, 'utf8')
}
