import { z } from 'zod'

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
export const port = z.coerce.number().int().min(0).max(65_535)
export const durationMs = z.coerce.number().int().min(1).max(86_400_000)
export const logLevel = z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])

/**
 * Reads a service's settings from the environment.
 *
 * Every problem is reported at once, by variable name; the values themselves are not printed, since one may
 * be a secret. The result is frozen.
 */
export function readEnv<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<z.infer<z.ZodObject<Shape>>> {
  const known = Object.keys(schema.shape)
  const given = Object.fromEntries(
    known.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])),
  )
  const parsed = schema.safeParse(given)
  if (parsed.success) return Object.freeze(parsed.data)
  const problems = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`)
  throw new Error(`the environment is not usable:\n${problems.join('\n')}`)
}

/** As `readEnv`, for a program that is starting: a problem is printed without a stack trace, and ends it with 1. */
export function readEnvOrExit<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<z.infer<z.ZodObject<Shape>>> {
  try {
    return readEnv(schema, environment)
  } catch (err) {
    process.stderr.write(`${err instanceof Error ? err.message : String(err)}\n`)
    process.exit(1)
  }
}
