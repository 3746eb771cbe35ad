import { statSync } from 'node:fs'
import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** Used when the environment's own folder for temporary files is closed to other accounts. */
const COMMON_FOLDERS = ['/tmp', '/var/tmp']

const OTHERS_MAY_PASS = 0o001

/**
 * Creates the folder of a plane.
 *
 * Started by root, PostgreSQL runs under an account of its own and must be able to pass through, so a folder
 * for temporary files that only root may enter is not used then.
 */
export async function createPlaneFolder(): Promise<string> {
  const isRoot = process.getuid?.() === 0
  const candidates = [tmpdir(), ...COMMON_FOLDERS]
  const parent = (isRoot ? candidates.find(isOpenToAll) : undefined) ?? tmpdir()
  const folder = await mkdtemp(join(parent, 'quotaplane-'))
  await chmod(folder, 0o711)
  return folder
}

function isOpenToAll(path: string): boolean {
  try {
    const isOpen = (statSync(path).mode & OTHERS_MAY_PASS) !== 0
    return isOpen && (dirname(path) === path || isOpenToAll(dirname(path)))
  } catch {
    return false // It does not exist here.
  }
}
