import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startPostgres } from '../../../services/cli/plane/postgres.ts'
import type { Launch } from '../../../services/cli/plane/servers.ts'

const isRoot = process.getuid?.() === 0

describe.skipIf(!isRoot)('the folder of a plane that root starts', () => {
  it('is refused by its name, with the way out, where PostgreSQL may not enter it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'quotaplane-closed-'))
    try {
      await chmod(folder, 0o700)
      // It is refused before anything is started.
      await expect(startPostgres({ folder } as Launch, { isKept: true })).rejects.toThrow(
        /may not enter .*quotaplane-closed-.*: name a folder .* or set DATABASE_URL/,
      )
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
