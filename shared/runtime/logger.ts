import { type Logger as PinoLogger, pino, stdSerializers } from 'pino'

export type Logger = PinoLogger

export interface LoggerOptions {
  readonly service: string
  readonly region?: string
  readonly level: string
}

/**
 * URLs in driver errors may carry passwords; they are cut before a line is written. Up to the last `@`, since an
 * unescaped password may hold `@` and `/`.
 */
const CREDENTIALS_IN_URL = /(\w+:\/\/)[^\s"'<>]*@/g

/** Errors nest: causes, aggregated errors, a driver's own fields. Deeper parts are left out. */
const ERROR_DEPTH_MAX = 5

/** A driver's error may point at a whole socket; the first fields say enough. */
const ERROR_FIELDS_MAX = 50

/**
 * Fields of errors that are never written. A driver adds the arguments of the command that failed: of one that signs in
 * they are the password, and of the others they hold what was asked about.
 */
const HIDDEN_FIELD =
  /^(args|parameters|pass|password|passphrase|authorization|token|secret|seed|key)$/i

/** Replaces user and password of every URL in `text`. */
export function redactUrls(text: string): string {
  return text.replace(CREDENTIALS_IN_URL, '$1[redacted]@')
}

/** JSON lines on stderr, so that what a command prints on stdout stays clean. */
export function createLogger(options: LoggerOptions): Logger {
  const base = { service: options.service, ...(options.region && { region: options.region }) }
  return pino(
    {
      level: options.level,
      base,
      redact: [
        'req.headers.authorization',
        'headers.authorization',
        'token',
        '*.token',
        '*.password',
      ],
      serializers: { err: redactedError },
    },
    process.stderr,
  )
}

/** Also for what is not an error: anything can be thrown. */
function redactedError(err: unknown): unknown {
  return redacted(err instanceof Error ? stdSerializers.err(err) : err, 0)
}

function redacted(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return redactUrls(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth === ERROR_DEPTH_MAX) return '[deeper]'
  if (ArrayBuffer.isView(value)) return '[bytes]'
  const parts = Object.entries(value)
    .slice(0, ERROR_FIELDS_MAX)
    .map(([name, part]: [string, unknown]) => {
      const isHidden = !Array.isArray(value) && HIDDEN_FIELD.test(name)
      return [name, isHidden ? '[redacted]' : redacted(part, depth + 1)] as const
    })
  return Array.isArray(value) ? parts.map(([, part]) => part) : Object.fromEntries(parts)
}
