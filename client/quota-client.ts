import { Agent } from 'undici'
import { type Answer, isRecord, limitHeaders, parseAnswer, refusalOf } from './answers.ts'
import { EnforcerRing, type RingEntry } from './enforcer-ring.ts'
import { type LeaseCounts, type LeaseOptions, Leases, type Post } from './leases/leases.ts'
import { QuotaClientError } from './quota-error.ts'
import { type Check, encodeCheck, type NamedCheck } from './requests.ts'
import { settledBefore } from './settled-before.ts'

export interface QuotaClientOptions {
  /** Enforcers of this region, such as `http://127.0.0.1:8080`; calls are spread over them. */
  readonly urls: readonly string[]
  /** Longest wait for an answer, ms; 100 unless told. An enforcer answers in about one. */
  readonly timeoutMs?: number
  /**
   * What a check answers while no enforcer does: `allow` (unless told), `deny`, or `throw`. Marked in the answer by
   * `degraded` and `decidedBy: 'client'`.
   */
  readonly onUnavailable?: 'allow' | 'deny' | 'throw'
  /**
   * For `https:` URLs, PEM texts: the authority of the enforcers' certificates in place of the system's, and this
   * application's own certificate and key where they ask for one.
   */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** A token with the scope `quota:check`, where the enforcers ask for one; sent with each request. */
  readonly token?: string
  /** Connections kept open to each enforcer; 32 unless told. */
  readonly connections?: number
  /**
   * Header fields of each request, such as those that OpenTelemetry's `propagation.inject` fills, so that a check
   * belongs to its caller's trace. Called for each request.
   */
  readonly traceFields?: () => Readonly<Record<string, string>>
  /**
   * Whether tokens of keys that are checked often are taken in blocks and spent here, without a request for each check;
   * not unless told. Such answers have `decidedBy: 'lease'`, and no enforcer counts those checks: `leaseCounts` does.
   */
  readonly leases?: boolean | LeaseOptions
}

/** A retry after a failure that left the request unsent goes to the next enforcer; each is asked once. */
const NEVER_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** Largest answer that is read; a check of all descriptors and limits stays far below it. */
const ANSWER_BYTES_MAX = 4_194_304

const KEEP_ALIVE_MS = 30_000

/** A refund or release counts once, so it may be sent again; each time has the client's deadline. */
const TAKE_BACK_ATTEMPTS_MAX = 3

interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: unknown
}

interface SendOptions {
  readonly body: string
  readonly signal: AbortSignal
  /** The caller's own. */
  readonly caller: AbortSignal | undefined
}

type Outcome =
  | { readonly kind: 'reply'; readonly reply: Reply }
  | { readonly kind: 'failed'; readonly failure: unknown; readonly isUncounted: boolean }

/**
 * Asks the region's enforcers.
 *
 * Connections are kept open. Each call has a deadline, ends at once when its signal is aborted, and is never sent
 * twice once it may have arrived: a check that was counted twice would deny somebody.
 */
export class QuotaClient {
  readonly #ring: EnforcerRing
  readonly #timeoutMs: number
  readonly #onUnavailable: 'allow' | 'deny' | 'throw'
  readonly #agent: Agent
  readonly #traceFields: QuotaClientOptions['traceFields']
  readonly #fields: Readonly<Record<string, string>>
  readonly #leases: Leases | null

  constructor(options: QuotaClientOptions) {
    if (options.urls.length === 0) throw new RangeError('urls must name at least one enforcer')
    this.#ring = new EnforcerRing(options.urls.map((url) => new URL(url)))
    this.#timeoutMs = options.timeoutMs ?? 100
    this.#onUnavailable = options.onUnavailable ?? 'allow'
    this.#traceFields = options.traceFields
    this.#fields = { ...authorizationOf(options.token), 'content-type': 'application/json' }
    this.#leases = leasesOf(options.leases, (path, body) => this.#post(path, body, undefined))
    this.#agent = new Agent({
      connections: options.connections ?? 32,
      pipelining: 1,
      ...(options.tls && { connect: options.tls }),
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxResponseSize: ANSWER_BYTES_MAX,
    })
  }

  /**
   * Whether the check may pass; a denial resolves with `allowed: false`.
   *
   * Rejects with QUOTA_CLIENT_INVALID when the enforcer refuses the input, with the signal's reason when it is
   * aborted, and under `onUnavailable: 'throw'` with QUOTA_CLIENT_UNAVAILABLE.
   */
  async check(check: Check): Promise<Answer> {
    const leased = this.#leases?.take(check) ?? null
    const { signal, ...body } = check
    if (leased !== null) {
      if (!('settled' in leased)) return leased
      await settledBefore(this.#until(signal), leased.settled)
    }
    try {
      const reply = await this.#post('/v1/check', encodeCheck(body), signal)
      const answer = parseAnswer(reply.body)
      this.#leases?.noteRevision(answer.revision)
      return {
        ...answer,
        decidedBy: 'enforcer',
        headers: limitHeaders(reply.headers),
      }
    } catch (err) {
      const isDecidable = err instanceof QuotaClientError && err.code === 'QUOTA_CLIENT_UNAVAILABLE'
      if (!isDecidable || this.#onUnavailable === 'throw') throw err
      return {
        allowed: this.#onUnavailable === 'allow',
        region: '',
        revision: 0,
        degraded: true,
        decisions: [],
        decidedBy: 'client',
        headers: {},
      }
    }
  }

  /**
   * Gives back what an allowed check took, because what it was for did not happen. Counts once however often it is sent,
   * so it is repeated until an enforcer has answered; resolves with what became of it.
   *
   * `check` must carry the `requestId` that `answer` was given for. Rejects with QUOTA_CLIENT_UNAVAILABLE when no
   * enforcer answered: then ask again, or leave it, and the tokens come back by themselves as if they had been used.
   */
  async refund(check: NamedCheck, answer: Pick<Answer, 'admittedAtUs'>): Promise<string> {
    const { signal, ...body } = check
    const { admittedAtUs } = answer
    // The enforcer did not decide it, so nothing was taken.
    if (admittedAtUs === undefined) return 'nothing'
    return await this.#takeBack('/v1/refund', encodeCheck(body, { admittedAtUs }), signal)
  }

  /** Frees what the request holds of concurrency limits; repeated like a refund. */
  async release(check: NamedCheck): Promise<string> {
    const { signal, ...body } = check
    return await this.#takeBack('/v1/release', encodeCheck(body), signal)
  }

  /**
   * Runs `work` while the check's concurrency limits have room for it, and frees the room whichever way it ends.
   *
   * Resolves with null when the check is denied; `work` did not run then. A release that no enforcer answers is left to
   * the limit's longest hold.
   */
  async hold<T>(check: Check, work: () => Promise<T>): Promise<{ readonly value: T } | null> {
    const answer = await this.check(check)
    if (!answer.allowed) return null
    try {
      return { value: await work() }
    } finally {
      const requestId = answer.requestId ?? check.requestId
      const { signal: _mayBeAborted, ...named } = check
      if (requestId !== undefined) await this.release({ ...named, requestId }).catch(ignore)
    }
  }

  async #takeBack(path: string, body: string, signal: AbortSignal | undefined): Promise<string> {
    let failure: unknown
    for (let attempt = 0; attempt < TAKE_BACK_ATTEMPTS_MAX; attempt++) {
      try {
        const { body: reply } = await this.#post(path, body, signal)
        return isRecord(reply) ? String(reply['outcome']) : 'unknown'
      } catch (err) {
        const isRefusal = err instanceof QuotaClientError && err.code === 'QUOTA_CLIENT_INVALID'
        if (isRefusal || signal?.aborted === true) throw err
        failure = err
      }
    }
    throw failure
  }

  /** What was taken in blocks, and what became of it; null without `leases`. */
  get leaseCounts(): LeaseCounts | null {
    return this.#leases?.counts ?? null
  }

  /** Gives unspent tokens of blocks back, and closes the connections once the calls in flight have ended. */
  async close(): Promise<void> {
    await this.#leases?.close()
    await this.#agent.close()
  }

  /** Aborted by the deadline of a call that begins now, or by its caller. */
  #until(signal: AbortSignal | undefined): AbortSignal {
    const deadline = AbortSignal.timeout(this.#timeoutMs)
    return signal === undefined ? deadline : AbortSignal.any([deadline, signal])
  }

  async #post(path: string, body: string, signal: AbortSignal | undefined): Promise<Reply> {
    const until = this.#until(signal)
    let failure: unknown
    for (const entry of this.#ring.turn()) {
      const outcome = await this.#ask(entry, path, { body, signal: until, caller: signal })
      if (outcome.kind === 'reply') return outcome.reply
      failure = outcome.failure
      if (!outcome.isUncounted) break
    }
    if (signal?.aborted === true) throw signal.reason
    const cause = until.aborted ? `within ${this.#timeoutMs} ms` : `(${describe(failure)})`
    throw new QuotaClientError('QUOTA_CLIENT_UNAVAILABLE', `no enforcer answered ${cause}`, {
      cause: failure,
    })
  }

  /** Asks one enforcer. Throws only when it refuses the input. */
  async #ask(entry: RingEntry, path: string, options: SendOptions): Promise<Outcome> {
    const { url } = entry
    let reply: Reply
    try {
      reply = await this.#send(url, path, options)
    } catch (failure) {
      // One that hangs would cost each of its turns the whole deadline; a caller that gave up says nothing of it.
      if (!options.caller?.aborted) this.#ring.putLast(entry)
      return { kind: 'failed', failure, isUncounted: NEVER_SENT.has(codeOf(failure)) }
    }
    if (reply.headers['connection'] === 'close') this.#ring.putLast(entry)
    if (reply.status === 200) return { kind: 'reply', reply }
    if (reply.status < 500) throw refusalOf(reply.status, reply.body)
    // A 503 says that nothing was counted, so another enforcer may be asked.
    const failure = new Error(`${url.origin} answered ${reply.status}`)
    return { kind: 'failed', failure, isUncounted: reply.status === 503 }
  }

  async #send(url: URL, path: string, { body, signal }: SendOptions): Promise<Reply> {
    const response = await this.#agent.request({
      origin: url.origin,
      path: `${url.pathname.replace(/\/+$/, '')}${path}`,
      method: 'POST',
      headers: { ...this.#traceFields?.(), ...this.#fields },
      body,
      signal,
    })
    const text = await response.body.text()
    return { status: response.statusCode, headers: response.headers, body: parseJson(text) }
  }
}

function leasesOf(option: QuotaClientOptions['leases'], post: Post): Leases | null {
  if (option === undefined || option === false) return null
  return new Leases(post, option === true ? {} : option)
}

function authorizationOf(token: string | undefined): { readonly authorization?: string } {
  if (token === undefined) return {}
  // Told here: the failure of a request would be taken for an outage, and would show the token.
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new RangeError(
      'token must have visible ASCII characters alone: is there a line feed at its end?',
    )
  }
  return { authorization: `Bearer ${token}` }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null // Not JSON, so not an enforcer's; what looks at it says so.
  }
}

function codeOf(err: unknown): string {
  return err instanceof Error && 'code' in err ? String(err.code) : ''
}

function describe(err: unknown): string {
  const code = codeOf(err)
  return code === '' && err instanceof Error ? err.message : code
}

/** What is held ends by itself after the limit's longest hold, so nothing is lost but time. */
function ignore(): void {}
