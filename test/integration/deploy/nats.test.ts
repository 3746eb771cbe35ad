import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { writeKeys } from '../../../services/cli/keys/write-keys.ts'

const run = promisify(execFile)

describe('deploy/nats', () => {
  it('is what a NATS server takes, with the keys that keys create writes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'quotaplane-nats-'))
    try {
      const files = await readdir('deploy/nats')
      const regions = files.map((file) => file.replace(/\.conf$/, ''))
      expect(regions).toHaveLength(3)
      await writeKeys(join(folder, 'keys'), regions)
      for (const file of files) {
        await copyFile(join('deploy/nats', file), join(folder, file))
        const { stderr } = await run('nats-server', ['-t', '-c', join(folder, file)])
        expect(stderr).toContain('configuration file')
        expect(stderr).toContain('is valid')
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
