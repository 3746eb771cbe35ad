/**
 * Writes files into a folder so that a run which is killed at any instant leaves nothing that stands in the way.
 *
 * They are written into one folder in there (`.writing`), which gets another name (`.written`) once all of them are, and
 * then moved out of it in their order. So what is found later says how far a run came: `.writing` holds nothing that
 * anybody has seen and goes; `.written` is whole, and moving the rest finishes it. The folder itself may be a mounted
 * volume, which could not be renamed.
 */
import { mkdir, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const WRITING = '.writing'
const WRITTEN = '.written'

export type Write = (name: string, content: string, mode?: number) => Promise<void>

/** Writes what `fill` writes, all or nothing, and resolves with the names in the order in which they came. */
export async function writeTogether(
  folder: string,
  fill: (write: Write) => Promise<void>,
): Promise<string[]> {
  const from = join(folder, WRITING)
  await mkdir(from, { mode: 0o700 })
  let count = 0
  const names: string[] = []
  try {
    await fill(async (name, content, mode) => {
      // Numbered, so that whoever finishes the moves keeps the order.
      const path = join(from, `${String(count++).padStart(6, '0')} ${name}`)
      await writeFile(path, content, { flag: 'wx', flush: true, ...(mode && { mode }) })
      names.push(name)
    })
    await rename(from, join(folder, WRITTEN))
  } catch (err) {
    await rm(from, { recursive: true, force: true })
    throw err
  }
  await moveOut(folder)
  return names
}

/** Finishes or takes back what a run that was killed left, and resolves with the names of the files that came by it. */
export async function finishEarlier(folder: string): Promise<string[]> {
  const there = await readdir(folder).catch(() => [] as string[])
  if (there.includes(WRITING)) await rm(join(folder, WRITING), { recursive: true })
  return there.includes(WRITTEN) ? moveOut(folder) : []
}

async function moveOut(folder: string): Promise<string[]> {
  const from = join(folder, WRITTEN)
  const names: string[] = []
  for (const numbered of (await readdir(from)).sort()) {
    const name = numbered.slice(numbered.indexOf(' ') + 1)
    await rename(join(from, numbered), join(folder, name))
    names.push(name)
  }
  await rmdir(from)
  return names
}
