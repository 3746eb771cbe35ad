import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { planReplay } from '../../../services/cli/demo/replay.ts'
import { readTrace } from '../../../services/cli/demo/trace.ts'
import { regionRuleOf } from '../../../services/cli/demo/trace-region.ts'

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quota-trace-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function file(name: string, text: string): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, text)
  return path
}

const LOG = [
  '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326',
  '10.1.2.3 - - [10/Oct/2000:22:55:35 +0200] "GET / HTTP/1.1" 304 - "http://a.example/" "Mozilla/5.0 (X11)"',
].join('\n')

describe('a CSV trace', () => {
  it('is read by the names in its header, in any order of columns and of times', async () => {
    const path = await file('a.csv', 'client,status,time_ms,region\nbob,200,20,eu\namy,200,10,us\n')
    const trace = await readTrace(path, null)
    expect(trace.requests).toEqual([
      { timeMs: 10, region: 'us', client: 'amy' },
      { timeMs: 20, region: 'eu', client: 'bob' },
    ])
    expect(trace.regions).toEqual(['eu', 'us'])
    expect(trace.clients).toBe(2)
  })

  it('understands quoted fields and Windows line ends', async () => {
    const path = await file('b.csv', 'time_ms,region,client\r\n5,eu,"bob, ""the"" crawler"\r\n')
    expect((await readTrace(path, null)).requests[0]?.client).toBe('bob, "the" crawler')
  })

  it('is refused with file and line where a line makes no sense', async () => {
    const path = await file('c.csv', 'time_ms,region,client\n5,eu,bob\nsoon,eu,bob\n')
    await expect(readTrace(path, null)).rejects.toThrow(/c\.csv:3: time_ms "soon" is not a number/)
  })

  it('is refused with the way out when it names no region', async () => {
    const path = await file('d.csv', 'time_ms,client\n5,bob\n')
    await expect(readTrace(path, null)).rejects.toThrow(/give --region-from/)
    const trace = await readTrace(path, await regionRuleOf('eu', ['us', 'eu']))
    expect(trace.regions).toEqual(['eu'])
  })

  it('is refused when a region could not be registered', async () => {
    const path = await file('e.csv', 'time_ms,region,client\n5,Eu West,bob\n')
    await expect(readTrace(path, null)).rejects.toThrow(/"Eu West"/)
  })
})

describe('an access log', () => {
  it('is read in the Common and the Combined Log Format, time zones included', async () => {
    const path = await file('a.log', LOG)
    const trace = await readTrace(path, await regionRuleOf('hash', ['us', 'eu']))
    const at = Date.UTC(2000, 9, 10, 20, 55, 35)
    expect(trace.requests.map(({ timeMs, client }) => [timeMs - at, client])).toEqual([
      [0, '10.1.2.3'],
      [1_000, '127.0.0.1'],
    ])
  })

  it('needs a rule for regions, and says so', async () => {
    const path = await file('b.log', LOG)
    await expect(readTrace(path, null)).rejects.toThrow(/give --region-from/)
  })

  it('puts a client into the region of its longest prefix', async () => {
    const rules = await file('regions.csv', '# office first\n10.,us\n10.1.,eu\n*,ap\n')
    const rule = await regionRuleOf(rules, ['us', 'eu'])
    expect(['10.1.2.3', '10.9.9.9', '192.0.2.1'].map(rule)).toEqual(['eu', 'us', 'ap'])
  })

  it('puts a client into the same region every time', async () => {
    const rule = await regionRuleOf('hash', ['us', 'eu', 'ap'])
    const regions = Array.from({ length: 300 }, (_, i) => rule(`client-${i}`))
    expect(regions).toEqual(Array.from({ length: 300 }, (_, i) => rule(`client-${i}`)))
    for (const region of ['us', 'eu', 'ap']) {
      expect(regions.filter((r) => r === region).length).toBeGreaterThan(50)
    }
  })

  it('may hold some broken lines, and is refused when it is none', async () => {
    const lines = Array.from({ length: 30 }, () => LOG).join('\n')
    const trace = await readTrace(await file('c.log', `${lines}\n-\n`), () => 'us')
    expect(trace.requests).toHaveLength(60)
    expect(trace.skippedLines).toBe(1)
    const prose = await file('prose.txt', 'Dear diary,\ntoday nothing was limited.\n')
    await expect(readTrace(prose, () => 'us')).rejects.toThrow(/neither a CSV trace/)
  })
})

describe('a replay', () => {
  const requests = Array.from({ length: 1_001 }, (_, i) => ({
    timeMs: i * 4_000,
    region: 'us',
    client: 'bob',
  }))
  const trace = { requests, regions: ['us'], clients: 1, skippedLines: 0 }

  it('takes about forty seconds unless a speed is given', () => {
    expect(planReplay(trace, null)).toMatchObject({ speed: 100, durationMs: 40_000 })
    expect(planReplay(trace, 400)).toMatchObject({ speed: 400, durationMs: 10_000 })
  })

  it('meets its limit over all clients at any speed', () => {
    expect(planReplay(trace, 100).capacity).toBe(23)
    expect(planReplay(trace, 400).capacity).toBe(90)
  })
})
