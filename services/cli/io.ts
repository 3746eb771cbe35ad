/** Where a command writes: data to `out`, everything said to a person to `err`. */
export interface Io {
  readonly out: Sink
  readonly err: Sink
  readonly env: Readonly<Record<string, string | undefined>>
  /** Standard input, read to its end. */
  readonly readStdin: () => Promise<string>
  /** Aborts on Ctrl-C and on termination. */
  readonly signal: AbortSignal
}

export interface Sink {
  write(text: string): void
  /** A person is watching: lines may be redrawn. */
  readonly isTerminal: boolean
  readonly hasColour: boolean
}

/** A sink for a stream of the process. NO_COLOR and TERM=dumb are honoured; a pipe gets plain lines. */
export function sinkOf(
  stream: NodeJS.WriteStream,
  env: Readonly<Record<string, string | undefined>>,
): Sink {
  const isTerminal = stream.isTTY === true && env['TERM'] !== 'dumb'
  return {
    write: (text) => void stream.write(text),
    isTerminal,
    hasColour: isTerminal && (env['NO_COLOR'] ?? '') === '',
  }
}

/** One line of a message. */
export function say(sink: Sink, line: string): void {
  sink.write(`${line}\n`)
}

export function bold(sink: Sink, text: string): string {
  return sink.hasColour ? `\u001b[1m${text}\u001b[22m` : text
}
