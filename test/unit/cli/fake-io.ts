import type { Io, Sink } from '../../../services/cli/io.ts'

/** An Io whose output is kept. */
export interface FakeIo extends Io {
  readonly written: { out: string; err: string }
}

/** No terminal, no input but `stdin`, an environment of its own. */
export function ioWith(options: {
  readonly stdin?: string
  readonly env?: Readonly<Record<string, string>>
}): FakeIo {
  const written = { out: '', err: '' }
  const sink = (name: 'out' | 'err'): Sink => ({
    write: (text) => {
      written[name] += text
    },
    isTerminal: false,
    hasColour: false,
  })
  return {
    written,
    out: sink('out'),
    err: sink('err'),
    env: { XDG_RUNTIME_DIR: '/nonexistent', ...options.env },
    readStdin: async () => options.stdin ?? '',
    signal: new AbortController().signal,
  }
}
