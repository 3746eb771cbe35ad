import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { CliError, EXIT } from '../errors.ts'

/** A line beyond this is cut: no log has one, and a file that is no log may be one line. */
const LINE_CHARS_MAX = 65_536

export interface ReadProgress {
  /** Part of the file that is read, 0 to 1. */
  part: number
}

/**
 * The lines of a file, one at a time, whatever its size; compressed ones (`.gz`) are unpacked. `progress` follows.
 */
export async function* linesOf(path: string, progress: ReadProgress): AsyncGenerator<string> {
  const size = await sizeOf(path)
  let bytes = 0
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      progress.part = size === 0 ? 1 : bytes / size
      done(null, chunk)
    },
  })
  const file = createReadStream(path).on('error', (err) => counted.destroy(err))
  const packed = file.pipe(counted)
  const text = path.endsWith('.gz') ? unpacked(packed) : packed
  text.setEncoding('utf8')
  try {
    yield* split(text)
  } catch (err) {
    throw new CliError(`cannot read ${path}: ${err instanceof Error ? err.message : err}`)
  } finally {
    file.destroy()
  }
}

async function* split(text: AsyncIterable<unknown>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of text) {
    const parts = (rest + String(chunk)).split('\n')
    rest = (parts.pop() ?? '').slice(0, LINE_CHARS_MAX)
    for (const line of parts) yield line.endsWith('\r') ? line.slice(0, -1) : line
  }
  if (rest !== '') yield rest
}

function unpacked(packed: Transform): Transform {
  const text = createGunzip()
  packed.on('error', (err) => text.destroy(err))
  return packed.pipe(text)
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size
  } catch (err) {
    const why = err instanceof Error ? err.message : err
    throw new CliError(`cannot read ${path}: ${why}`, EXIT.usage)
  }
}
