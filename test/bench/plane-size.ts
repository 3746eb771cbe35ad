/**
 * What an operator waits for on a plane of many policies.
 *
 * `npm run bench:plane -- 10000` starts a plane of two regions, creates so many policies with an override each, and
 * prints how long it takes to plan a change of all of them, to carry it out, and to list them, as answered over HTTP,
 * with the processor time of admin and of Postgres (Linux only). Postgres keeps its data as `quotaplane up` does,
 * without waiting for the disk. `--json` prints one line.
 */
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { AdminClient, parseReply } from '../../services/cli/admin-client.ts'
import { startPlane } from '../../services/cli/plane/plane.ts'
import { rolloutReplySchema } from '../../shared/protocol/rollout-reply.ts'

const REGIONS = ['us-east-1', 'eu-west-1']
const PAGE = 100

/** A change that takes this long is a failure of the plane and not a figure. */
const GIVE_UP_MS = 60_000

/** The regions of a small machine may take far longer, and what is measured is admin: then it goes on without them. */
const FOLLOW_MS_MAX = 20_000

/** How often it is asked what the regions apply. */
const LOOK_EVERY_MS = 100

/** Clock ticks of /proc a second, on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100

interface Figure {
  readonly what: string
  readonly ms: number
  /** Milliseconds of processor time; null where the system does not tell. */
  readonly adminCpuMs: number | null
  readonly postgresCpuMs: number | null
}

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const count = Number(positionals[0] ?? 10_000)

const plane = await startPlane({
  regions: REGIONS,
  linkDelayMs: 0,
  databaseUrl: null,
  ports: 'free',
  env: process.env,
  say: () => {},
  signal: new AbortController().signal,
})
try {
  const client = new AdminClient({ ...plane.admin })
  const figures = [
    await timed('create', () => apply(client, 100)),
    await timed('follow', () => untilApplied(client)),
    await timed('plan', () => apply(client, 200, '?dryRun=true')),
    await timed('apply', () => apply(client, 200)),
    await timed('follow', () => untilApplied(client)),
    await timed('apply unchanged', () => apply(client, 200)),
    await timed('list', () => list(client)),
  ]
  report(figures)
} finally {
  await plane.stop()
}

async function apply(client: AdminClient, capacity: number, query = ''): Promise<void> {
  const limit = {
    name: 'per-second',
    algorithm: 'token_bucket',
    capacity,
    windowMs: 1_000,
    split: { 'us-east-1': 60, 'eu-west-1': 40 },
  }
  const documents = Array.from({ length: count }, (_, id) => ({
    domain: 'bench',
    name: `policy-${id}`,
    match: [{ key: 'tenant', value: `tenant-${id}` }, { key: 'user' }],
    limits: [limit],
    overrides: [{ value: 'acme', limits: { 'per-second': { capacity: 2 * capacity } } }],
  }))
  const path = `/v1/apply${query}`
  await client.call({ method: 'POST', path, body: { documents }, timeoutMs: GIVE_UP_MS })
}

/** Every page, one after the other. */
async function list(client: AdminClient): Promise<void> {
  const pageSchema = z.object({ items: z.array(z.unknown()), next: z.string().nullable() })
  let [listed, cursor] = [0, '']
  do {
    const path = `/v1/policies?limit=${PAGE}${cursor}`
    const page = parseReply(pageSchema, (await client.call({ method: 'GET', path })).body)
    listed += page.items.length
    cursor = page.next === null ? '' : `&cursor=${page.next}`
  } while (cursor !== '')
  if (listed !== count) throw new Error(`${listed} of ${count} policies were listed`)
}

/** Until every enforcer of every region decides by the newest revision, so that nothing else is at work after it. */
async function untilApplied(client: AdminClient): Promise<void> {
  const endMs = performance.now() + FOLLOW_MS_MAX
  while (performance.now() < endMs) {
    const { body } = await client.call({ method: 'GET', path: '/v1/rollouts/latest' })
    if (parseReply(rolloutReplySchema, body).isComplete) return
    await delay(LOOK_EVERY_MS)
  }
  process.stderr.write(`the regions had not applied the change within ${FOLLOW_MS_MAX} ms\n`)
}

async function timed(what: string, work: () => Promise<void>): Promise<Figure> {
  const before = await processorMs()
  const startedMs = performance.now()
  await work()
  const ms = Math.round(performance.now() - startedMs)
  const after = await processorMs()
  return {
    what,
    ms,
    adminCpuMs: before && after && after.admin - before.admin,
    postgresCpuMs: before && after && after.postgres - before.postgres,
  }
}

async function processorMs() {
  if (process.platform !== 'linux') return null
  const [admin, server] = [plane.admin.child.pid, plane.postgres.child?.pid]
  const stats = (await Promise.all((await readdir('/proc')).map(statOf))).flat()
  const sum = (pid: number | undefined) =>
    stats.filter((one) => one.pid === pid || one.parent === pid).reduce((ms, one) => ms + one.ms, 0)
  return { admin: sum(admin), postgres: sum(server) }
}

/** Of one process; of those that ended, its children's times are in its own. */
async function statOf(entry: string) {
  const pid = Number(entry)
  const text = Number.isInteger(pid)
    ? await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => '') // It has ended.
    : ''
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (fields.length < 15) return []
  const ticks = fields.slice(11, 15).reduce((all, field) => all + Number(field), 0)
  return [{ pid, parent: Number(fields[1]), ms: (ticks * 1_000) / TICKS_PER_SECOND }]
}

function report(figures: readonly Figure[]): void {
  if (values.json) {
    process.stdout.write(`${JSON.stringify({ policies: count, figures })}\n`)
    return
  }
  process.stdout.write(`${count} policies with an override each, two regions\n`)
  for (const { what, ms, adminCpuMs, postgresCpuMs } of figures) {
    const cpu =
      adminCpuMs === null ? '' : `  admin ${adminCpuMs} ms of CPU, Postgres ${postgresCpuMs} ms`
    process.stdout.write(`${what.padEnd(16)}${String(ms).padStart(6)} ms${cpu}\n`)
  }
}
