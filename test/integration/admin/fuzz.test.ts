import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ApiFuzzer, type FuzzRequest } from '../../support/fuzz-api.ts'
import { randomOf } from '../../support/random.ts'
import { type Admin, AUTHORIZED, startAdmin, TOKEN } from './admin-harness.ts'

/** `npm run fuzz -- --requests N --seed S` sets both. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? 2_000)
const SEED = Number(process.env['FUZZ_SEED'] ?? 7)

const AT_ONCE = 4

/** A machine that stalls keeps changes waiting for one another until some are told to come again; they do. */
const TRIES = 4

/** Far above any deadline of the service: what takes longer hangs. */
const HANG_MS = 60_000

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

/** Numbers from 0 to below 1 that a seed repeats. */
function fractions(seed: number): () => number {
  const random = randomOf(seed)
  return () => random.below(2 ** 32) / 2 ** 32
}

const secrets = new Set([TOKEN])

/** What is wrong with the answer to a request; null when nothing is. */
async function wrongWith(request: FuzzRequest): Promise<string | null> {
  let wrong: string | null = null
  for (let tries = 0; tries < TRIES; tries++) {
    wrong = await wrongOnce(request)
    if (wrong?.startsWith('503') !== true) return wrong
  }
  return wrong
}

async function wrongOnce(request: FuzzRequest): Promise<string | null> {
  const { method, url, payload } = request
  const headers = { ...AUTHORIZED, ...request.headers }
  let timer: NodeJS.Timeout | undefined
  const hang = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), HANG_MS)
  })
  const sent = admin.app.inject({
    method: method as 'GET',
    url,
    headers,
    ...(payload !== undefined && { payload }),
  })
  const answer = await Promise.race([sent, hang])
  clearTimeout(timer)
  if (answer === null) return 'no answer'
  const { statusCode: status, body } = answer
  if (status >= 500) return `${status} ${body}`
  const made = /"token":"(qp_[^"]+)"/.exec(body)?.[1]
  if (made !== undefined) secrets.add(made)
  if (status < 400) return null
  const type = String(answer.headers['content-type'])
  if (!type.includes('application/problem+json')) return `${status} of the type ${type}`
  const problem = JSON.parse(body)
  const isWhole = ['type', 'title', 'detail', 'code', 'requestId'].every(
    (field) => typeof problem[field] === 'string',
  )
  return isWhole && problem.status === status ? null : `${status} with the problem ${body}`
}

it(
  `answers ${REQUESTS} random requests without a failure, a hang or a secret in the log (seed ${SEED})`,
  async () => {
    const document = (await admin.app.inject({ url: '/openapi.json' })).json()
    const fuzzer = new ApiFuzzer(document, fractions(SEED), (path) => path !== '/v1/stream')
    expect(fuzzer.size).toBeGreaterThan(30)
    const failures: string[] = []
    const work = async (): Promise<void> => {
      while (left-- > 0 && failures.length < 10) {
        const request = fuzzer.next()
        const wrong = await wrongWith(request)
        if (wrong !== null) failures.push(`${wrong}\n  ${JSON.stringify(request).slice(0, 1_500)}`)
      }
    }
    let left = REQUESTS
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    expect(failures.join('\n'), logged.slice(-4_000)).toBe('')
    for (const secret of secrets) expect(logged).not.toContain(secret)
  },
  Math.max(120_000, REQUESTS * 60),
)
