import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { isServiceLink, unknownSettings } from './unknown-settings.ts'

/** A secret that prints as `[redacted]` wherever it is logged or serialised. */
export class Secret {
  readonly #value: string

  constructor(value: string) {
    this.#value = value
  }

  reveal(): string {
    return this.#value
  }

  toString(): string {
    return '[redacted]'
  }

  toJSON(): string {
    return '[redacted]'
  }
}

export const secret = z
  .string()
  .min(1)
  .transform((value) => new Secret(value))
/** A secret of at least so many characters: guessing it is not slowed down. */
export function longSecret(lengthMin: number) {
  return z
    .string()
    .min(lengthMin, `must have at least ${lengthMin} characters`)
    .transform((value) => new Secret(value))
}
/** A certificate or key as PEM text; in practice given as a file, by `…_FILE`. */
export const pem = z
  .string()
  .regex(/^-----BEGIN [A-Z ]+-----/m, { error: 'must be PEM text, or name its file by _FILE' })
export const port = z.coerce.number().int().min(0).max(65_535)
export const durationMs = z.coerce.number().int().min(1).max(86_400_000)
export const logLevel = z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])

/**
 * Reads a service's settings from the environment. Each may instead be the content of a file that `<name>_FILE`
 * names, which is how secrets are mounted into containers; the line feed at its end is not part of it. With
 * `ownPrefix`, a variable that begins so and is nearly a setting is a problem too.
 *
 * Every problem is reported at once, by variable name; the values themselves are not printed, since one may
 * be a secret. The result is frozen.
 */
export function readEnv<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  environment: Readonly<Record<string, string | undefined>>,
  ownPrefix?: string,
): Readonly<z.infer<z.ZodObject<Shape>>> {
  const unreadable: string[] = []
  const unknown =
    ownPrefix === undefined
      ? []
      : unknownSettings(environment).filter(
          (one) => one.isMisspelt && one.name.startsWith(ownPrefix),
        )
  const given = Object.fromEntries(
    Object.keys(schema.shape).flatMap((name) => {
      const value = settingOf(name, environment, unreadable)
      return value ? [[name, value]] : []
    }),
  )
  const parsed = schema.safeParse(given, { error: wordsFor })
  if (parsed.success && unreadable.length + unknown.length === 0) return Object.freeze(parsed.data)
  const refused = parsed.error?.issues.filter(
    (issue) =>
      !unreadable.some((problem) => problem.startsWith(`  ${issue.path[0]?.toString()}_FILE:`)),
  )
  const problems = [
    ...unreadable,
    ...(refused ?? []).map((issue) => `  ${issue.path.join('.')}: ${issue.message}`),
    ...unknown.map(({ name, message }) => `  ${name}: ${message}`),
  ]
  throw new Error(`the environment is not usable:\n${problems.join('\n')}`)
}

/** What is wrong, where the setting has no words of its own for it, and so what to write instead. */
function wordsFor(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'missing; docs/settings.md says what it is'
      return issue.expected === 'number' ? 'must be a number' : 'must be a whole number'
    case 'too_small':
      return `must be at least ${issue.minimum}`
    case 'too_big':
      return `must be at most ${issue.maximum}`
    case 'invalid_value':
      return `must be one of ${issue.values.join(', ')}`
    default:
      return undefined
  }
}

/**
 * As `readEnv`, for a service that is starting: a problem is printed without a stack trace, and ends it with 1.
 *
 * A misspelt setting of this service ends the start too, since what it was to switch on would be off. Others may be
 * another program's (`warnOfUnknown`).
 */
export function readEnvOrExit<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  environment: Readonly<Record<string, string | undefined>>,
  ownPrefix: string,
): Readonly<z.infer<z.ZodObject<Shape>>> {
  try {
    return readEnv(schema, environment, ownPrefix)
  } catch (err) {
    process.stderr.write(`${err instanceof Error ? err.message : String(err)}\n`)
    process.exit(1)
  }
}

function settingOf(
  name: string,
  environment: Readonly<Record<string, string | undefined>>,
  unreadable: string[],
): string | undefined {
  const path = environment[`${name}_FILE`]
  if (!path) return ownValue(name, environment)
  if (environment[name]) {
    unreadable.push(`  ${name}_FILE: ${name} is set too; leave one of them out`)
    return undefined
  }
  try {
    return readFileSync(path, 'utf8').replace(/\r?\n$/, '')
  } catch (err) {
    const code = err instanceof Error && 'code' in err ? String(err.code) : 'not readable'
    unreadable.push(`  ${name}_FILE: cannot read ${path} (${code})`)
    return undefined
  }
}

/** The value, unless Kubernetes set it: the port of a service `enforcer` is `ENFORCER_PORT=tcp://…` in each pod. */
function ownValue(
  name: string,
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const value = environment[name]
  return value === undefined || isServiceLink(name, value) ? undefined : value
}
