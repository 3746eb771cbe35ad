import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ApiFuzzer } from '../../support/fuzz-api.ts'
import { fractions, runFuzz, tallyLine } from '../../support/fuzz-run.ts'
import { type Admin, AUTHORIZED, startAdmin, TOKEN } from './admin-harness.ts'

/** `npm run fuzz -- --requests N --seed S` sets both. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? 2_000)
const SEED = Number(process.env['FUZZ_SEED'] ?? 7)

let admin: Admin
let logged = ''

beforeAll(async () => {
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      logged += String(chunk)
      done()
    },
  })
  admin = await startAdmin({ log: pino({ level: 'trace' }, sink) })
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  await admin.create({ domain: 'web', name: 'p0' })
  await admin.follower.stepOnce()
})
afterAll(async () => await admin.close())

const secrets = new Set([TOKEN])
const strange: string[] = []

/** A message in the words of the schema library, which say nothing to who calls the API. */
const LIBRARY_WORDS =
  /"message":"(Invalid|Too (big|small)|Unrecognized|[^"]*(received undefined|expected (string|number|object|array|boolean|int)))/

it(
  `answers ${REQUESTS} random requests without a failure, a hang or a secret in the log (seed ${SEED})`,
  async () => {
    const document = (await admin.app.inject({ url: '/openapi.json' })).json()
    const fuzzer = new ApiFuzzer(document, fractions(SEED), (path) => path !== '/v1/stream')
    expect(fuzzer.size).toBeGreaterThan(30)
    const tally = await runFuzz({
      app: admin.app,
      fuzzer,
      requests: REQUESTS,
      headers: AUTHORIZED,
      problemFields: ['code', 'requestId'],
      onAnswer: (body) => {
        const made = /"token":"(qp_[^"]+)"/.exec(body)?.[1]
        if (made !== undefined) secrets.add(made)
        if (LIBRARY_WORDS.test(body)) strange.push(body.slice(0, 500))
      },
    })
    if (process.env['FUZZ_REQUESTS'] !== undefined) process.stdout.write(tallyLine(tally, SEED))
    expect(tally.failures.join('\n'), logged.slice(-4_000)).toBe('')
    expect(strange.slice(0, 5)).toEqual([])
    expect(tally.routes.size).toBe(fuzzer.size)
    for (const secret of secrets) expect(logged).not.toContain(secret)
  },
  Math.max(120_000, REQUESTS * 60),
)
