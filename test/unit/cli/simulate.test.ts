import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { linesOf, type ReadProgress } from '../../../services/cli/simulate/lines.ts'
import { partOfRequest } from '../../../shared/core/counter-parts.ts'
import { ioWith } from './fake-io.ts'

const START_MS = Date.UTC(2026, 0, 1)
const policy = (capacity: number, more = '', match = '[{key: client}]') => `
domain: web
name: per-client
match: ${match}
${more}
acceptSmallLimits: true
limits:
  - {name: per-minute, algorithm: fixed_window, capacity: ${capacity}, windowMs: 60000, split: {us-east-1: 50, eu-west-1: 50}}
`
let folder: string
let old: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-simulate-'))
  old = await file('old.yaml', policy(3))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function file(name: string, text: string | Uint8Array): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, text)
  return path
}

async function simulate(trace: string, next: string, ...args: readonly string[]) {
  const io = ioWith({})
  const changed = await file('new.yaml', next)
  const command = ['simulate', '--trace', trace, '-f', changed, '--against', old, ...args]
  const exitCode = await runProgram(command, io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

async function figures(trace: string, next: string, ...args: readonly string[]) {
  const { exitCode, out, err } = await simulate(trace, next, '-o', 'json', ...args)
  expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' })
  return JSON.parse(out)
}

/** Five requests of ann in one region and two of bob in the other, all within a minute; one of ann an hour later. */
const REQUESTS = [
  ...[0, 1, 2, 3, 4].map((second) => ({ second, client: 'ann', region: 'us-east-1' })),
  ...[2, 3].map((second) => ({ second, client: 'bob', region: 'eu-west-1' })),
  { second: 3_600, client: 'ann', region: 'us-east-1' },
].sort((one, other) => one.second - other.second)
const at = (second: number): Date => new Date(START_MS + 1_000 * second)
const MONTH = 'Jan'

const FORMATS: readonly (readonly [string, string, readonly string[]])[] = [
  [
    'CSV',
    `time_ms,region,client\n${REQUESTS.map((one) => `${at(one.second).getTime()},${one.region},${one.client}`).join('\n')}\n`,
    [],
  ],
  [
    'CSV with other columns',
    `when,place,who\n${REQUESTS.map((one) => `${at(one.second).toISOString()},${one.region},"${one.client}"`).join('\r\n')}`,
    ['--time', 'when', '--map', 'client=who', '--region-from', 'by-who.csv'],
  ],
  [
    'JSON lines',
    `${REQUESTS.map((one) => JSON.stringify({ ts: at(one.second).getTime() / 1_000, region: one.region, user: { id: one.client } })).join('\n')}\nbroken`,
    ['--map', 'client=user.id'],
  ],
  [
    'an access log',
    REQUESTS.map((one) => {
      const time = at(one.second).toISOString().slice(11, 19)
      return `${one.client} - - [01/${MONTH}/2026:${time} +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "curl"`
    }).join('\n'),
    ['--region-from', 'by-client.csv'],
  ],
]

describe('quotaplane simulate', () => {
  it.each(FORMATS)(
    'counts what would change, by region and key, of %s',
    async (_what, text, args) => {
      const rule = await file('rule.csv', 'ann,us-east-1\nbob,eu-west-1\n*,us-east-1')
      const trace = await file('trace.log', text)
      const given = args.map((arg) => (arg.endsWith('.csv') ? rule : arg))
      // Only the client decides where a request comes from, and this log has it by another name.
      const regions = args.includes('when')
        ? { 'us-east-1': 8 }
        : { 'us-east-1': 6, 'eu-west-1': 2 }
      const {
        total,
        regions: found,
        keys,
        denials,
        skipped,
      } = await figures(trace, policy(1), ...given)
      expect(total).toEqual({
        checks: 8,
        allowedBefore: 3 + 2 + 1,
        allowedAfter: 1 + 1 + 1,
        newlyDenied: 3,
        newlyAllowed: 0,
      })
      const checks = found.map((one: { region: string; checks: number }) => [
        one.region,
        one.checks,
      ])
      expect(Object.fromEntries(checks)).toEqual(regions)
      expect(keys).toMatchObject([
        { key: 'client=ann', checks: 6, newlyDenied: 2 },
        { key: 'client=bob', checks: 2, newlyDenied: 1 },
      ])
      expect(denials).toEqual([{ limit: 'per-client/per-minute', before: 2, after: 5 }])
      expect(skipped).toBe(text.includes('broken') ? 1 : 0)
    },
  )

  it('replays the trace in this folder whole, packed as well, and shows the same', async () => {
    const sample = 'services/cli/demo/sample-trace.csv'
    const plain = await figures(sample, policy(1))
    const { readFile } = await import('node:fs/promises')
    const packed = await file('sample.csv.gz', gzipSync(await readFile(sample)))
    expect({ ...(await figures(packed, policy(1))), trace: sample }).toEqual(plain)
    expect(plain.total.checks).toBeGreaterThan(100)
    expect(plain.regions).toHaveLength(3)
  })

  it('has all of a limit in one place, or each region its own part of it', async () => {
    const lines = ['us-east-1', 'eu-west-1'].flatMap((region) =>
      [1, 2, 3].map((ms) => `${START_MS + ms},${region},ann`),
    )
    const trace = await file('two.csv', `time_ms,region,client\n${lines.join('\n')}`)
    const allowed = async (...args: readonly string[]) =>
      (await figures(trace, policy(5), ...args)).total.allowedAfter
    expect(await allowed()).toBe(5)
    // Of five tokens three are in one region and two in the other, whoever asks.
    expect(await allowed('--model', 'split')).toBe(5)
    const alone = await file(
      'one.csv',
      `time_ms,region,client\n${[1, 2, 3, 4, 5].map((ms) => `${START_MS + ms},us-east-1,ann`).join('\n')}`,
    )
    const { total } = await figures(alone, policy(5), '--model', 'split')
    expect(total.allowedAfter).toBeLessThan(4)
  })

  it('takes a line for as many requests as it says, spread over its time', async () => {
    const trace = await file(
      'minutes.csv',
      'minute_utc,requests\n2026-01-01T00:00:00Z,4\n2026-01-01T00:01:00Z,0\n2026-01-01T00:02:00Z,2\n',
    )
    const match = '[{key: minute_utc, shared: true}]'
    const found = await figures(trace, policy(3, '', match), '--region-from', 'us-east-1')
    expect(found).toMatchObject({ total: { checks: 6, allowedAfter: 5 } })
    expect(found.to).toBe('2026-01-01T00:02:30.000Z')
  })

  it('puts requests in order that are a little out of it, and counts those that are further out', async () => {
    const times = [...Array.from({ length: 1_500 }, (_, n) => 60_000 + n * 10), 0]
    const swapped = times.map((ms, n) => times[n % 2 === 0 && n < 1_498 ? n + 1 : n - 1] ?? ms)
    const trace = await file(
      'late.csv',
      `time_ms,region,client\n${[...swapped, 0].map((ms) => `${START_MS + ms},us-east-1,c`).join('\n')}`,
    )
    expect((await figures(trace, policy(1))).late).toBe(1)
  })

  it('shows a table for people, with what it rests on', async () => {
    const { out } = await simulate('services/cli/demo/sample-trace.csv', policy(1))
    for (const part of ['newly denied', 'together', 'denied by:', 'keys:', 'one limiter']) {
      expect(out).toContain(part)
    }
  })

  it.each([
    ['a field that the log lacks', ['--map', 'client=nobody'], 'has no field nobody'],
    ['a field without the time', ['--time', 'nobody'], 'called nobody'],
    ['a mapping that is none', ['--map', 'client'], 'is not KEY=FIELD'],
  ])('refuses %s and says what there is', async (_what, args, said) => {
    const found = await simulate('services/cli/demo/sample-trace.csv', policy(1), ...args)
    expect(found).toMatchObject({ exitCode: 2, err: expect.stringContaining(said) })
  })

  it('reads line by line: memory does not grow with the file', async () => {
    const line = `${START_MS},us-east-1,ann\n`
    const path = await file('large.csv', `time_ms,region,client\n${line.repeat(200_000)}`)
    const progress: ReadProgress = { part: 0 }
    let longest = 0
    let lines = 0
    for await (const one of linesOf(path, progress)) {
      longest = Math.max(longest, one.length)
      lines++
      if (lines === 1_000) expect(progress.part).toBeLessThan(0.5)
    }
    expect({ lines, longest: longest < 50, part: progress.part }).toEqual({
      lines: 200_001,
      longest: true,
      part: 1,
    })
  })
})

describe('a limit of several shards', () => {
  it('is played in as many parts, each of its part of the limit', async () => {
    const requests = Array.from(
      { length: 12 },
      (_, second) => `${at(second).getTime()},us-east-1,ann`,
    )
    const trace = await file('sharded.csv', `time_ms,region,client\n${requests.join('\n')}\n`)
    const parts = [0, 0, 0]
    for (let request = 1; request <= requests.length; request++) {
      const part = partOfRequest(String(request), parts.length)
      parts[part] = (parts[part] ?? 0) + 1
    }
    // Four in each part, and one part is asked for less.
    const admitted = parts.reduce((sum, asked) => sum + Math.min(asked, 4), 0)
    expect(admitted).toBeLessThan(requests.length)
    const sharded = policy(12).replace('capacity', 'shards: 3, capacity')
    expect((await figures(trace, sharded)).total).toMatchObject({
      checks: 12,
      allowedAfter: admitted,
    })
    expect((await figures(trace, policy(12))).total).toMatchObject({ allowedAfter: 12 })
  })
})
