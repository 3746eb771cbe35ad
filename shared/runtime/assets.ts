import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Folder of the package: the nearest one above this file with a package.json, from source and from dist alike. */
export const PACKAGE_ROOT = findRoot(dirname(fileURLToPath(import.meta.url)))

function findRoot(from: string): string {
  if (existsSync(join(from, 'package.json'))) return from
  const parent = dirname(from)
  if (parent === from) throw new Error('no package.json above the running code')
  return findRoot(parent)
}

/** Version of the package. */
export const PACKAGE_VERSION = readVersion()

function readVersion(): string {
  const { version }: { version: string } = JSON.parse(
    readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'),
  )
  return version
}
