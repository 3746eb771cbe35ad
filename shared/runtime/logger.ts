import { type Logger as PinoLogger, pino, stdSerializers } from 'pino'

export type Logger = PinoLogger

export interface LoggerOptions {
  readonly service: string
  readonly region?: string
  readonly level: string
}

/** URLs in driver errors may carry passwords; they are cut before a line is written. */
const CREDENTIALS_IN_URL = /(\w+:\/\/)[^@/\s]+@/g

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

function redactedError(err: Error): object {
  const plain = stdSerializers.err(err)
  return { ...plain, message: redactUrls(plain.message), stack: redactUrls(plain.stack ?? '') }
}
