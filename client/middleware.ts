import type { Answer } from './answers.ts'
import { type Denial, denialOf } from './denial.ts'
import type { QuotaClient } from './quota-client.ts'
import type { Descriptor } from './requests.ts'

export interface MiddlewareOptions<Request> {
  readonly client: Pick<QuotaClient, 'check'>
  readonly domain: string
  /**
   * What the request is limited by; null lets it pass without a check.
   *
   * Take it from what the server has verified (a session, an API key). A header such as `X-Forwarded-For` is written by
   * the caller unless a proxy of your own replaces it.
   */
  readonly descriptor: (req: Request) => Descriptor | readonly Descriptor[] | null
  /** Tokens of the request; 1 unless told. */
  readonly cost?: (req: Request) => number
}

export type Ruling =
  | { readonly kind: 'unchecked' }
  | { readonly kind: 'allowed'; readonly answer: Answer }
  | { readonly kind: 'denied'; readonly answer: Answer; readonly denial: Denial }

/** Asks for one request of a server. */
export async function rule<Request>(
  req: Request,
  options: MiddlewareOptions<Request>,
  signal: AbortSignal,
): Promise<Ruling> {
  const found = options.descriptor(req)
  if (found === null) return { kind: 'unchecked' }
  const descriptors = isSeveral(found) ? found : [found]
  if (descriptors.length === 0) return { kind: 'unchecked' }
  const cost = options.cost?.(req) ?? 1
  const answer = await options.client.check({ domain: options.domain, descriptors, cost, signal })
  if (answer.allowed) return { kind: 'allowed', answer }
  return { kind: 'denied', answer, denial: denialOf(answer) }
}

/** A list of entries is one descriptor; a list of anything else is several. */
function isSeveral(found: Descriptor | readonly Descriptor[]): found is readonly Descriptor[] {
  if (!Array.isArray(found)) return false
  const [first] = found
  const isEntry = typeof first === 'object' && first !== null && 'key' in first && 'value' in first
  return !isEntry || Object.keys(first).length !== 2
}
