/**
 * Where a running local plane says how to reach it, so that commands on this machine need no flags.
 *
 * The file holds a token, so only its owner may read it, and a file of another owner is not believed.
 */
import { lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { PlaneDescription } from './plane/topology.ts'

const PREFIX = 'quotaplane-'

const stateSchema = z.object({
  pid: z.number().int(),
  url: z.string(),
  token: z.string(),
  regions: z.array(
    z.object({ region: z.string(), enforcerUrl: z.string(), debugToken: z.string().optional() }),
  ),
})

export type LocalPlane = z.infer<typeof stateSchema>

type Environment = Readonly<Record<string, string | undefined>>

/** Leaves word of `plane` where commands of this user find it, and returns the file's path. */
export function writeStateFile(env: Environment, plane: PlaneDescription): string {
  const state: LocalPlane = {
    pid: plane.pid,
    url: plane.admin.url,
    token: plane.admin.token,
    regions: plane.regions.map(({ region, debugToken, enforcers }) => ({
      region,
      debugToken,
      enforcerUrl: enforcers[0]?.url ?? '',
    })),
  }
  const path = join(folderOf(env), `${PREFIX}${userId()}-${plane.pid}.json`)
  rmSync(path, { force: true }) // A leftover of an earlier process with this pid.
  writeFileSync(path, `${JSON.stringify(state)}\n`, { mode: 0o600, flag: 'wx' })
  return path
}

/** The local plane of this user that was started last and still runs; null when there is none. */
export function findLocalPlane(env: Environment): LocalPlane | null {
  return findLocalPlanes(env)[0] ?? null
}

/** The local planes of this user that still run, the one that was started last first. */
export function findLocalPlanes(env: Environment): readonly LocalPlane[] {
  const folder = folderOf(env)
  const names = readNames(folder).filter((name) => name.startsWith(`${PREFIX}${userId()}-`))
  return names
    .map((name) => readStateFile(join(folder, name)))
    .filter((state) => state !== null)
    .filter(({ plane }) => isAlive(plane.pid))
    .sort((a, b) => b.writtenMs - a.writtenMs)
    .map(({ plane }) => plane)
}

function folderOf(env: Environment): string {
  return env['XDG_RUNTIME_DIR'] || tmpdir()
}

function readNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // XDG_RUNTIME_DIR may name a folder that is gone; then no plane left word there.
  }
}

function readStateFile(path: string): { plane: LocalPlane; writtenMs: number } | null {
  try {
    const stat = lstatSync(path)
    if (!stat.isFile() || stat.uid !== userId()) return null
    const parsed = stateSchema.safeParse(JSON.parse(readFileSync(path, 'utf8')))
    return parsed.success ? { plane: parsed.data, writtenMs: stat.mtimeMs } : null
  } catch {
    return null // Gone meanwhile, or not such a file.
  }
}

function userId(): number {
  return process.getuid?.() ?? 0
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false // It ended without removing its file.
  }
}
