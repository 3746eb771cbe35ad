import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ShiftReport } from '../../services/cli/demo/shift.ts'
import { holdsInATry } from '../support/tries.ts'
import { quotaplane, temporaryFolder } from './support.ts'

type Folder = Awaited<ReturnType<typeof temporaryFolder>>

async function inFolder<T>(work: (folder: Folder) => Promise<T>): Promise<T> {
  const folder = await temporaryFolder()
  try {
    return await work(folder)
  } finally {
    await folder.remove()
  }
}

describe('quotaplane demo', () => {
  it('moves the split after the load, exceeds nothing, and leaves nothing', async () => {
    const demo = (): Promise<ShiftReport> =>
      inFolder(async ({ path, env }) => {
        const demo = await quotaplane(['demo', '--json', '--seconds', '16'], { env })
        expect(demo.exitCode, demo.err).toBe(0)
        expect(await readdir(path)).toEqual([])
        return JSON.parse(demo.out.trim().split('\n').at(-1) ?? '')
      })
    await holdsInATry(demo, {
      always(report) {
        expect(Object.keys(report)).toEqual([
          'limit',
          'admittedMaxPerSecond',
          'overshoot',
          'splitBefore',
          'splitAfter',
          'convergenceMs',
          'utilisation',
          'checks',
          'checkP50Ms',
          'checkP99Ms',
        ])
        expect(report.overshoot).toBe(0)
        expect(report.admittedMaxPerSecond).toBeLessThanOrEqual(report.limit + 101)
      },
      once(report) {
        expect(report.splitBefore[0]).toBeGreaterThan(55)
        expect(report.splitAfter[1]).toBeGreaterThan(80)
        expect(report.convergenceMs).not.toBeNull()
        expect(report.convergenceMs).toBeLessThan(2_000)
        expect(report.utilisation).toBeGreaterThan(0.9)
        expect(report.checks).toBeGreaterThan(15_000)
      },
    })
  })
})

// Nothing of these is about how soon the plane follows.
describe.concurrent('quotaplane demo --trace', () => {
  it('replays the trace it ships, tells what each region did, and exceeds no limit', async () => {
    await inFolder(async ({ path, env }) => {
      const trace = 'services/cli/demo/sample-trace.csv'
      const demo = await quotaplane(['demo', '--trace', trace, '--speed', '8000'], { env })
      expect(demo.exitCode, demo.err).toBe(0)
      expect(demo.out).toMatch(
        /2180 recorded requests of \d+ clients .* in ap-south-1, eu-west-1, us-east-1/,
      )
      expect(demo.out).toMatch(/admitted beyond the limit "everyone" +0\n/)
      expect(demo.out).toMatch(/admitted beyond the limit "per-client" +0\n/)
      expect(demo.out).toMatch(/^eu-west-1 +\d+ +\d+ +\d+$/m)
      expect(await readdir(path)).toEqual([])
    })
  })

  it('replays an access log, with regions given by a rule', async () => {
    await inFolder(async ({ path, env }) => {
      const log = join(path, 'access.log')
      const lines = Array.from({ length: 300 }, (_, i) => {
        const second = String(i % 60).padStart(2, '0')
        const minute = String(Math.floor(i / 60)).padStart(2, '0')
        return `10.0.0.${i % 17} - - [10/Oct/2025:13:${minute}:${second} +0000] "GET / HTTP/1.1" 200 12 "-" "test"`
      })
      await writeFile(log, `${lines.join('\n')}\n`)
      const args = ['demo', '--trace', log, '--region-from', 'hash', '--speed', '120', '--json']
      const demo = await quotaplane(args, { env })
      expect(demo.exitCode, demo.err).toBe(0)
      const report = JSON.parse(demo.out)
      expect(report).toMatchObject({ overshoot: 0, checks: 300, clients: 17, speed: 120 })
      const offered = report.regions.map((region: { offered: number }) => region.offered)
      expect(offered.reduce((a: number, b: number) => a + b, 0)).toBe(300)
    })
  })
})
