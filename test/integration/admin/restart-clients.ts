/** Clients that change everything an admin may change, and what must have come of it once they are done. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import type { randomOf } from '../../support/random.ts'
import { type Admin, type Answer, aLimit, aPolicy } from './admin-harness.ts'

export const COUNTED = ['counted-0', 'counted-1', 'counted-2']
export const TWINS = ['twin-a', 'twin-b']
export const SPARE_REGION = 'ap-south-1'

export const LOOK_AGAIN_MS = 10
const EMERGENCIES = '/v1/emergency-actions'

/** How often each policy was changed; null: it is not there. */
export type State = ReadonlyMap<string, number | null>

/** What was answered as done. Its name is the reason that it was sent with, so that the log must tell of it. */
export interface Done {
  readonly name: string
  /** What it makes of the policies; `at` gives what they were at a revision. */
  readonly change?: (now: State, at: (revision: number) => State) => State
  /** What it asks of the spare region. */
  readonly region?: 'draining' | 'resuming'
  /** The same may have been in force already: then the log tells nothing of it. */
  readonly mayChangeNothing?: boolean
}

/** A policy that says in its capacity how often it was changed. */
export const own = (name: string, changes: number) =>
  aPolicy({ name, match: [{ key: name }], limits: [aLimit({ capacity: 10_000 + changes })] })
export const pathOf = (name: string) => `/v1/domains/api/policies/${name}`
export const countOf = ({ status, body }: Answer): number | null =>
  status === 404 ? null : body.limits[0].capacity - 10_000

/** Repeats a request until admin has an answer to it: while Postgres is away that is a 503. */
export async function settled(send: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await send()
    expect(answer.status, JSON.stringify(answer.body)).not.toBe(500)
    if (answer.status !== 503) return answer
    await delay(LOOK_AGAIN_MS)
  }
}

type Method = 'PUT' | 'POST' | 'DELETE'

export class Client {
  readonly done: Done[] = []
  /** Of what it began and made, and has not ended. */
  action: number | null = null
  token: string | null = null
  readonly #admin: Admin
  readonly #id: number
  readonly #random: ReturnType<typeof randomOf>
  readonly #firstRevision: number
  #kinds: (() => Promise<void>)[] = []
  #sent = 0

  constructor(
    admin: Admin,
    from: {
      readonly id: number
      readonly random: ReturnType<typeof randomOf>
      readonly firstRevision: number
    },
  ) {
    this.#admin = admin
    this.#id = from.id
    this.#random = from.random
    this.#firstRevision = from.firstRevision
  }

  /** One write of each kind comes before the second of any. */
  async writeOnce(): Promise<void> {
    if (this.#kinds.length === 0) {
      this.#kinds = [
        () => this.#countUp(this.#random.pick(COUNTED)),
        () => this.#countUp(this.#random.pick(COUNTED)),
        () => this.#applyTwins(),
        () => this.#override(),
        () => this.#createOrDelete(),
        () => this.#rollBack(),
        () => this.#emergency(),
        () => this.#moveRegion(),
        () => this.#token(),
      ]
    }
    const [next] = this.#kinds.splice(this.#random.below(this.#kinds.length), 1)
    await next?.()
  }

  /** Reads and writes what was read plus one; somebody else in between is a 412, and it is tried anew. */
  async #countUp(name: string): Promise<void> {
    for (;;) {
      const read = await this.#read(pathOf(name))
      const count = countOf(read) ?? Number.NaN
      const sent = await this.#send('PUT', pathOf(name), own(name, count + 1), ifMatch(read))
      if (sent.status === 412) continue
      expect(sent.status).toBe(200)
      this.#did(sent, {
        change: (now) => {
          expect(now.get(name), `${name} before ${sent.name}`).toBe(count)
          return new Map(now).set(name, count + 1)
        },
      })
      return
    }
  }

  async #applyTwins(): Promise<void> {
    const count = this.#random.below(1_000)
    const documents = TWINS.map((name) => own(name, count))
    const sent = await this.#send('POST', '/v1/apply', { documents })
    expect(sent.status).toBe(200)
    const change = (now: State) => TWINS.reduce((map, name) => map.set(name, count), new Map(now))
    this.#did(sent, { change, mayChangeNothing: true })
  }

  async #override(): Promise<void> {
    const random = this.#random
    const path = `${pathOf(random.pick(COUNTED))}/overrides/tenant-${random.below(5)}`
    const limits = { 'per-second': { capacity: random.below(1_000) } }
    const sent =
      random.below(3) === 0
        ? await this.#send('DELETE', path)
        : await this.#send('PUT', path, { limits })
    expect([200, 201, 204, 404]).toContain(sent.status)
    if (sent.status !== 404) this.#did(sent, { mayChangeNothing: true })
  }

  /** Of a policy that no other client touches, and rollbacks do. */
  async #createOrDelete(): Promise<void> {
    const name = `own-${this.#id}`
    const read = await this.#read(pathOf(name))
    const isThere = countOf(read) !== null
    const sent = isThere
      ? await this.#send('DELETE', pathOf(name), undefined, ifMatch(read))
      : await this.#send('PUT', pathOf(name), own(name, 0), { 'if-none-match': '*' })
    if (sent.status === 412 || sent.status === 404) return
    expect(sent.status).toBe(isThere ? 204 : 201)
    this.#did(sent, {
      change: (now) => {
        expect((now.get(name) ?? null) !== null, `${name} before ${sent.name}`).toBe(isThere)
        return new Map(now).set(name, isThere ? null : 0)
      },
    })
  }

  async #rollBack(): Promise<void> {
    for (;;) {
      const read = await this.#read('/v1/revisions?limit=20')
      const numbers = read.body.items
        .map(({ revision }: { revision: number }) => revision)
        .filter((revision: number) => revision >= this.#firstRevision)
      const to: number = this.#random.pick(numbers)
      const sent = await this.#send('POST', `/v1/revisions/${to}/rollback`, {}, ifMatch(read))
      if (sent.status === 412) continue
      expect(sent.status).toBe(200)
      this.#did(sent, { change: (_now, at) => at(to), mayChangeNothing: true })
      return
    }
  }

  async #emergency(): Promise<void> {
    const begun = this.action
    if (begun !== null) {
      const sent = await this.#send('DELETE', `${EMERGENCIES}/${begun}`)
      expect(sent.status).toBe(204)
      this.action = null
      this.#did(sent, {})
      return
    }
    const about = { domain: 'api', policy: this.#random.pick(COUNTED), value: `client-${this.#id}` }
    const sent = await this.#send('POST', EMERGENCIES, { kind: 'block', ...about, ttlSeconds: 600 })
    expect(sent.status).toBe(201)
    this.action = sent.body.id
    this.#did(sent, {})
  }

  async #moveRegion(): Promise<void> {
    const verb = this.#random.pick(['drain', 'resume'])
    const sent = await this.#send('POST', `/v1/regions/${SPARE_REGION}/${verb}`)
    expect(sent.status).toBe(200)
    const region = verb === 'drain' ? 'draining' : 'resuming'
    this.#did(sent, { region, mayChangeNothing: true })
  }

  /** A token is shown once: where its answer was lost, the repeated request is told that it was made. */
  async #token(): Promise<void> {
    if (this.token === null) {
      const name = `client-${this.#id}-${this.#sent}`
      const sent = await this.#send('POST', '/v1/tokens', { name, scopes: ['quota:read'] })
      expect([201, 409]).toContain(sent.status)
      this.token = name
      this.#did(sent, {})
      return
    }
    const { body } = await this.#read('/v1/tokens')
    const made = body.items.filter(({ name }: { name: string }) => name === this.token)
    expect(made).toHaveLength(1)
    const sent = await this.#send('DELETE', `/v1/tokens/${made[0].id}`)
    expect(sent.status).toBe(200)
    this.token = null
    this.#did(sent, {})
  }

  #read(path: string): Promise<Answer> {
    return settled(() => this.#admin.call('GET', path))
  }

  /** Sends a write under a name of its own, until it is answered. */
  async #send(
    method: Method,
    path: string,
    body?: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer & { readonly name: string }> {
    const name = `${this.#id}-${this.#sent++}`
    const sent = { 'idempotency-key': name, 'x-change-reason': name, ...headers }
    const said = path === EMERGENCIES ? { ...body, reason: name } : body
    const answer = await settled(() => this.#admin.call(method, path, said, sent))
    return { ...answer, name }
  }

  #did({ name }: { readonly name: string }, what: Omit<Done, 'name'>): void {
    this.done.push({ name, ...what })
  }
}

function ifMatch({ etag }: Answer): Readonly<Record<string, string>> {
  return { 'if-match': etag ?? '' }
}
