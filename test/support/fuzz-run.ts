/** Sends the requests that an ApiFuzzer makes, and tells what is wrong with the answers and what was sent. */
import type { FastifyInstance } from 'fastify'
import type { ApiFuzzer, FuzzRequest } from './fuzz-api.ts'
import { randomOf } from './random.ts'

const AT_ONCE = 4

/** A machine that stalls keeps changes waiting for one another until some are told to come again; they do. */
const TRIES = 4

/** Far above any deadline of a service: what takes longer hangs. */
const HANG_MS = 60_000

/** More of the same would tell nothing new. */
const FAILURES_MAX = 10

export interface FuzzRun {
  readonly app: Pick<FastifyInstance, 'inject'>
  readonly fuzzer: ApiFuzzer
  readonly requests: number
  /** Of every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** What problem documents have beside what RFC 9457 says. */
  readonly problemFields?: readonly string[]
  /** Told of each answer that is no failure. */
  readonly onAnswer?: (body: string) => void
}

export interface FuzzTally {
  readonly failures: readonly string[]
  /** How often each route was asked, by method and path. */
  readonly routes: ReadonlyMap<string, number>
  readonly statuses: ReadonlyMap<number, number>
}

/** Numbers from 0 to below 1 that a seed repeats. */
export function fractions(seed: number): () => number {
  const random = randomOf(seed)
  return () => random.below(2 ** 32) / 2 ** 32
}

export async function runFuzz(run: FuzzRun): Promise<FuzzTally> {
  const failures: string[] = []
  const routes = new Map<string, number>()
  const statuses = new Map<number, number>()
  let left = run.requests
  const work = async (): Promise<void> => {
    while (left-- > 0 && failures.length < FAILURES_MAX) {
      const request = run.fuzzer.next()
      const { status, wrong } = await answerTo(run, request)
      count(routes, `${request.method} ${request.path}`)
      count(statuses, status)
      if (wrong !== null) failures.push(`${wrong}\n  ${JSON.stringify(request).slice(0, 1_500)}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return { failures, routes, statuses }
}

/** One line for people: how many requests, to how many routes, and how they were answered. */
export function tallyLine({ routes, statuses }: FuzzTally, seed: number): string {
  const requests = [...routes.values()].reduce((sum, times) => sum + times, 0)
  const answers = [...statuses]
    .toSorted(([one], [other]) => one - other)
    .map(([status, times]) => `${times} x ${status}`)
  const least = Math.min(...routes.values())
  return `${requests} requests to ${routes.size} routes, each ${least} times at least: ${answers.join(', ')} (seed ${seed})\n`
}

function count<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

interface Judged {
  /** 0 when there was no answer. */
  readonly status: number
  /** What is wrong with it; null when nothing is. */
  readonly wrong: string | null
}

async function answerTo(run: FuzzRun, request: FuzzRequest): Promise<Judged> {
  let judged: Judged = { status: 0, wrong: null }
  for (let tries = 0; tries < TRIES; tries++) {
    judged = await answerOnce(run, request)
    if (judged.status !== 503) return judged
  }
  return judged
}

async function answerOnce(run: FuzzRun, request: FuzzRequest): Promise<Judged> {
  const { method, url, payload } = request
  const headers = { ...run.headers, ...request.headers }
  let timer: NodeJS.Timeout | undefined
  const hang = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), HANG_MS)
  })
  const sent = run.app.inject({
    method: method as 'GET',
    url,
    headers,
    ...(payload !== undefined && { payload }),
  })
  const answer = await Promise.race([sent, hang])
  clearTimeout(timer)
  if (answer === null) return { status: 0, wrong: 'no answer' }
  const { statusCode: status, body } = answer
  if (status >= 500) return { status, wrong: `${status} ${body}` }
  run.onAnswer?.(body)
  if (status < 400) return { status, wrong: null }
  const type = String(answer.headers['content-type'])
  return { status, wrong: wrongProblem({ status, type, body }, run.problemFields) }
}

function wrongProblem(
  { status, type, body }: { readonly status: number; readonly type: string; readonly body: string },
  fields: readonly string[] = [],
): string | null {
  if (!type.includes('application/problem+json')) return `${status} of the type ${type}`
  const problem = JSON.parse(body)
  const texts = ['type', 'title', 'detail', ...fields]
  const isWhole = texts.every((field) => typeof problem[field] === 'string')
  return isWhole && problem.status === status ? null : `${status} with the problem ${body}`
}
