/**
 * How long a change takes until every enforcer of every region applies it.
 *
 * `npm run bench:rollout` starts three regions, offers checks to each, makes a hundred changes one after the other, and
 * prints the median and the 99th percentile of the times from the answer of admin to each enforcer deciding by the new
 * number, and to the rollout that says so. `-- --changes 20 --rate 100` asks for less; `--json` prints one line.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { AdminClient, parseReply } from '../../services/cli/admin-client.ts'
import { startPlane } from '../../services/cli/plane/plane.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'
import { rolloutReplySchema } from '../../shared/protocol/rollout-reply.ts'

const REGIONS = ['us-east-1', 'eu-west-1', 'ap-south-1']

/** Checks under way at once in a region; the rate is spread over them. */
const SENDERS = 8

/** How often an enforcer is asked what it decides by. */
const LOOK_EVERY_MS = 5

/** A change that takes this long is a failure of the plane and not a figure. */
const GIVE_UP_MS = 20_000

const answerSchema = z.object({ decisions: z.array(z.object({ limit: z.number() })) })

const { values } = parseArgs({
  options: {
    changes: { type: 'string', default: '100' },
    rate: { type: 'string', default: '300' },
    json: { type: 'boolean', default: false },
  },
})
const changes = Number(values.changes)
const perSecond = Number(values.rate)

const plane = await startPlane({
  regions: REGIONS,
  linkDelayMs: 40,
  databaseUrl: null,
  ports: 'free',
  env: process.env,
  say: () => {},
  signal: new AbortController().signal,
})
const stopping = new AbortController()
try {
  const client = new AdminClient({ ...plane.admin })
  await putPolicy(client, 1_000_000)
  const load = offerLoad(plane, stopping.signal)
  await untilAllDecideBy(plane, 1_000_000)
  const times: { readonly enforced: number; readonly told: number }[] = []
  for (let change = 1; change <= changes; change++) times.push(await timeChange(client, change))
  stopping.abort()
  report(times, await load)
} finally {
  stopping.abort()
  await plane.stop()
}

async function timeChange(client: AdminClient, change: number) {
  const capacity = 1_000_000 + change
  const revision = await putPolicy(client, capacity)
  const answeredMs = performance.now()
  const since = (): number => performance.now() - answeredMs
  const [enforced, told] = await Promise.all([
    untilAllDecideBy(plane, capacity).then(since),
    untilTold(client, revision).then(since),
  ])
  return { enforced, told }
}

async function putPolicy(client: AdminClient, capacity: number): Promise<number> {
  const path = '/v1/domains/bench/policies/per-tenant'
  const found = await client.call({ method: 'GET', path, accepts: [404] })
  const condition = found.etag === null ? { 'if-none-match': '*' } : { 'if-match': found.etag }
  const split = { 'us-east-1': 34, 'eu-west-1': 33, 'ap-south-1': 33 }
  const limit = { name: 'per-second', algorithm: 'token_bucket', capacity, windowMs: 1_000, split }
  const body = { match: [{ key: 'tenant' }], limits: [limit] }
  const answer = await client.call({ method: 'PUT', path, body, headers: condition })
  return parseReply(z.object({ revision: z.number() }), answer.body).revision
}

async function untilTold(client: AdminClient, revision: number): Promise<void> {
  await until(async () => {
    const { body } = await client.call({ method: 'GET', path: `/v1/rollouts/${revision}` })
    return parseReply(rolloutReplySchema, body).isComplete
  }, 4 * LOOK_EVERY_MS)
}

async function untilAllDecideBy({ regions }: Plane, capacity: number): Promise<void> {
  const urls = regions.flatMap(({ enforcers }) => enforcers.map(({ url }) => url))
  await Promise.all(
    urls.map((url) => until(async () => (await check(url, 0)) === capacity, LOOK_EVERY_MS)),
  )
}

async function until(isSo: () => Promise<boolean>, everyMs: number): Promise<void> {
  const endMs = performance.now() + GIVE_UP_MS
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error(`not within ${GIVE_UP_MS} ms`)
    await delay(everyMs)
  }
}

/** The limit that a check was decided by. */
async function check(url: string, cost: number): Promise<number | undefined> {
  const value = `tenant-${Math.floor(Math.random() * 100)}`
  const descriptors = [{ entries: [{ key: 'tenant', value }] }]
  const response = await fetch(`${url}/v1/check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ domain: 'bench', descriptors, cost }),
  })
  return answerSchema.parse(await response.json()).decisions[0]?.limit
}

/** Checks in every region until `signal`; resolves with how many a second there were. */
async function offerLoad({ regions }: Plane, signal: AbortSignal): Promise<number> {
  const startedMs = performance.now()
  let sent = 0
  const send = async (url: string): Promise<void> => {
    while (!signal.aborted) {
      const dueMs = performance.now() + (1_000 * SENDERS) / perSecond
      await check(url, 1)
      sent++
      await delay(Math.max(0, dueMs - performance.now()))
    }
  }
  const urls = regions.flatMap(({ enforcers }) => enforcers.map(({ url }) => url))
  await Promise.all(urls.flatMap((url) => Array.from({ length: SENDERS }, () => send(url))))
  return (sent * 1_000) / (performance.now() - startedMs)
}

function report(
  times: readonly { readonly enforced: number; readonly told: number }[],
  checksPerSecond: number,
): void {
  const figures = {
    changes: times.length,
    regions: REGIONS.length,
    checksPerSecond: Math.round(checksPerSecond),
    enforcedMs: percentiles(times.map(({ enforced }) => enforced)),
    toldMs: percentiles(times.map(({ told }) => told)),
  }
  const { enforcedMs, toldMs } = figures
  const lines = [
    `${figures.changes} changes, ${figures.regions} regions, ${figures.checksPerSecond} checks a second`,
    `from the answer to every enforcer deciding by it: p50 ${enforcedMs.p50} ms, p99 ${enforcedMs.p99} ms, worst ${enforcedMs.worst} ms`,
    `to the rollout saying so:                         p50 ${toldMs.p50} ms, p99 ${toldMs.p99} ms, worst ${toldMs.worst} ms`,
  ]
  process.stdout.write(`${values.json ? JSON.stringify(figures) : lines.join('\n')}\n`)
}

function percentiles(samples: readonly number[]) {
  const sorted = [...samples].sort((one, other) => one - other)
  const at = (part: number): number =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0)
  return { p50: at(0.5), p99: at(0.99), worst: at(1) }
}
