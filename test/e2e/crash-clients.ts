/** Operators that change one plane at the same time through two admins, any of which may be killed under them. */
import { setTimeout as delay } from 'node:timers/promises'
import { randomOf } from '../support/random.ts'

/** What one operator did, once, however often it had to be sent. */
export interface Write {
  readonly id: string
  readonly kind: Kind
  /** It was answered; null: nobody knows whether it was carried out. */
  readonly status: number | null
  readonly revision: number | null
  /** Of a rollback. */
  readonly to?: number
  /** Every attempt was one request with an id of its own. */
  readonly attempts: number
}

const KINDS = [
  'count',
  'twins',
  'prune',
  'override',
  'delete',
  'rollback',
  'emergency',
  'end',
] as const
export type Kind = (typeof KINDS)[number]

export const TOKEN = 'crash-test-token'
export const COUNTED = ['counted-0', 'counted-1', 'counted-2']
export const TWINS = ['twin-a', 'twin-b']
const PRUNED = ['pruned-0', 'pruned-1', 'pruned-2', 'pruned-3']
const SPARE = 'spare'

/** An admin that is killed is back within seconds; longer is a hang. */
const ANSWER_MS = 20_000
const GIVE_UP_MS = 60_000
const AGAIN_MS = 20

interface Asked {
  readonly method: string
  readonly path: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

interface Answered {
  readonly status: number
  readonly etag: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads the fields it names, and fails on others.
  readonly body: any
}

/** A policy that says in its capacity how often it was changed. */
export function own(name: string, changes: number, labels?: Readonly<Record<string, string>>) {
  const split = { 'us-east-1': 60, 'eu-west-1': 40 }
  const capacity = 10_000 + changes
  const limit = { name: 'per-second', algorithm: 'token_bucket', capacity, windowMs: 1_000, split }
  return { domain: 'api', name, match: [{ key: name }], limits: [limit], ...(labels && { labels }) }
}

const pathOf = (name: string) => `/v1/domains/api/policies/${name}`

export class Client {
  readonly #id: number
  readonly #seed: number
  readonly #random: ReturnType<typeof randomOf>
  readonly #urls: () => readonly string[]
  readonly writes: Write[] = []

  constructor(id: number, seed: number, urls: () => readonly string[]) {
    this.#id = id
    this.#seed = seed
    this.#random = randomOf(seed * 16 + id)
    this.#urls = urls
  }

  /** One write of a random kind; a fifth of them is sent once and not again, whatever becomes of it. */
  async writeOnce(): Promise<void> {
    const kind = this.#random.pick(KINDS)
    const asked = await this.#asked(kind)
    if (asked === null) return
    const id = `w-${this.#seed}-${this.#id}-${this.writes.length}`
    const isSentOnce = this.#random.below(5) === 0
    const { to } = asked
    const { answer, attempts } = await this.#send(asked, id, isSentOnce)
    const revision = answer?.body?.revision ?? null
    const told = { id, kind, status: answer?.status ?? null, revision, attempts }
    this.writes.push({ ...told, ...(to !== undefined && { to }) })
  }

  /** Repeats a reading until it is answered. */
  async read(path: string): Promise<Answered> {
    const { answer } = await this.#send({ method: 'GET', path }, `r-${this.#id}`, false)
    if (answer === null) throw new Error('a reading is repeated until it is answered')
    return answer
  }

  async #asked(kind: Kind): Promise<(Asked & { readonly to?: number }) | null> {
    const random = this.#random
    const tenant = `tenant-${random.below(5)}`
    const overrides = `${pathOf(random.pick(COUNTED))}/overrides/${tenant}`
    switch (kind) {
      case 'count': {
        const name = random.pick(COUNTED)
        const { status, etag, body } = await this.read(pathOf(name))
        const headers = status === 404 ? { 'if-none-match': '*' } : { 'if-match': etag }
        const changes = status === 404 ? 0 : body.limits[0].capacity - 10_000
        return { method: 'PUT', path: pathOf(name), headers, body: own(name, changes + 1) }
      }
      case 'twins': {
        const changes = random.below(1_000)
        const documents = TWINS.map((name) => own(name, changes))
        return { method: 'POST', path: '/v1/apply', body: { documents } }
      }
      case 'prune': {
        const kept = PRUNED.filter(() => random.below(2) === 0)
        const documents = kept.map((name) => own(name, random.below(3), { team: 'pruned' }))
        const prune = { labels: { team: 'pruned' } }
        return { method: 'POST', path: '/v1/apply', body: { documents, prune } }
      }
      case 'override': {
        if (random.below(3) === 0) return { method: 'DELETE', path: overrides }
        const limits = { 'per-second': { capacity: random.below(1_000) } }
        return { method: 'PUT', path: overrides, body: { limits } }
      }
      case 'delete': {
        const path = pathOf(SPARE)
        if (random.below(2) === 0) return { method: 'DELETE', path, headers: { 'if-match': '*' } }
        const headers = { 'if-none-match': '*' }
        return { method: 'PUT', path, headers, body: own(SPARE, random.below(1_000)) }
      }
      case 'rollback': {
        const { body } = await this.read('/v1/revisions?limit=100')
        const to = random.pick<{ revision: number }>(body.items).revision
        return { method: 'POST', path: `/v1/revisions/${to}/rollback`, body: {}, to }
      }
      case 'emergency': {
        const policy = random.pick(COUNTED)
        const action = { domain: 'api', policy, kind: 'multiply', factor: 2 }
        const body = { ...action, reason: 'crash test', ttlSeconds: 600 }
        return { method: 'POST', path: '/v1/emergency-actions', body }
      }
      case 'end': {
        const { body } = await this.read('/v1/emergency-actions?limit=100')
        if (body.items.length === 0) return null
        const { id } = random.pick<{ id: number }>(body.items)
        return { method: 'DELETE', path: `/v1/emergency-actions/${id}` }
      }
    }
  }

  async #send(
    asked: Asked,
    id: string,
    isSentOnce: boolean,
  ): Promise<{ readonly answer: Answered | null; readonly attempts: number }> {
    const endMs = performance.now() + GIVE_UP_MS
    for (let attempt = 0; performance.now() < endMs; attempt++) {
      const key = isSentOnce ? null : id
      const answer = await this.#sendOnce(asked, `${id}.${attempt}`, { attempt, key })
      if (answer !== null || isSentOnce) return { answer, attempts: attempt + 1 }
      await delay(AGAIN_MS)
    }
    throw new Error(`${asked.method} ${asked.path} was not answered within ${GIVE_UP_MS} ms`)
  }

  /** Null when the connection ended before there was an answer, or Postgres was away. */
  async #sendOnce(
    asked: Asked,
    requestId: string,
    { attempt, key }: { readonly attempt: number; readonly key: string | null },
  ): Promise<Answered | null> {
    const urls = this.#urls()
    const url = urls[(this.#id + attempt) % urls.length] ?? ''
    const answer = await fetchOnce(url, asked, {
      authorization: `Bearer ${TOKEN}`,
      'x-request-id': requestId,
      ...(key !== null && asked.method !== 'GET' && { 'idempotency-key': key }),
      ...(asked.body !== undefined && { 'content-type': 'application/json' }),
      ...asked.headers,
    })
    if (answer === null || answer.status === 503) return null
    if (answer.status < 500) return answer
    throw new Error(`${asked.method} ${asked.path}: ${JSON.stringify(answer.body)}`)
  }
}

async function fetchOnce(
  url: string,
  asked: Asked,
  headers: Readonly<Record<string, string>>,
): Promise<Answered | null> {
  try {
    const response = await fetch(`${url}${asked.path}`, {
      method: asked.method,
      headers,
      ...(asked.body !== undefined && { body: JSON.stringify(asked.body) }),
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    const text = await response.text()
    return {
      status: response.status,
      etag: response.headers.get('etag') ?? '',
      body: text === '' ? null : JSON.parse(text),
    }
  } catch {
    return null // Whoever was asked is gone, or was before it had told all.
  }
}
