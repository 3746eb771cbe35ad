import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { createEnforcerApp } from '../../../services/enforcer/app.ts'
import { CheckObserver } from '../../../services/enforcer/check-observer.ts'
import { DecisionLog } from '../../../services/enforcer/decision-log.ts'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'
import type { PolicyIndex } from '../../../shared/core/policy-index.ts'
import type { CheckAnswer } from '../../../shared/core/ports.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { NEVER_ASKED } from '../../support/idle-store.ts'
import { askByPromise } from '../../support/sole-check.ts'

export const ADMIT = {
  allowed: true,
  reason: null,
  remaining: 9,
  resetMs: 100,
  retryAfterMs: null,
} as const

export const VALID = {
  domain: 'api',
  descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }],
}

/** An enforcer's app that listens, over a store that answers what `answer` gives. */
export async function listeningApp(over: {
  readonly index: () => PolicyIndex | null
  readonly answer: () => Promise<CheckAnswer>
}): Promise<{ readonly app: FastifyInstance; readonly url: string }> {
  const registry = createRegistry({ region: 'us-east-1' }, false)
  const metrics = createEnforcerMetrics(registry)
  const app = createEnforcerApp({
    region: 'us-east-1',
    clock: systemClock,
    headers: DRAFT_HEADERS,
    sender: { trustedHops: 0, ipv6Prefix: 64 },
    log: createLogger({ service: 'test', level: 'silent' }),
    registry,
    isRunning: () => true,
    inFlight: { count: 0, max: 1_000 },
    observer: new CheckObserver(new DecisionLog(systemClock), undefined),
    context: {
      store: {
        check: over.answer,
        ask: (check) => askByPromise({ check: over.answer }, check),
        giveBack: async () => {},
        ...NEVER_ASKED,
      },
      policies: { current: over.index, refresh: async () => {} },
      routes: new RouteTable(metrics.cellsOf),
      guard: new StoreGuard({ clock: systemClock, onChange: () => {} }),
      metrics,
    },
  })
  return { app, url: await app.listen({ port: 0 }) }
}

/** The text of a plain check. */
export function request(body: object, fields = ''): string {
  const text = JSON.stringify(body)
  const head = `host: here\r\ncontent-type: application/json\r\n${fields}`
  return `POST /v1/check HTTP/1.1\r\n${head}content-length: ${text.length}\r\n\r\n${text}`
}

/** What the server says on one connection to `sent`, part by part, until `answers` of them have come or it closes. */
export function onOneConnection(
  url: string,
  sent: readonly string[],
  answers: number,
): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let said = ''
  socket.setEncoding('latin1')
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', () => resolve(said))
    socket.on('data', (text) => {
      said += text
      if (said.split('HTTP/1.1 ').length > answers && said.endsWith('}')) socket.destroy()
    })
    let next = 0
    const sendNext = (): void => {
      socket.write(sent[next++] ?? '')
      // A turn between them, so that they arrive apart.
      if (next < sent.length) setTimeout(sendNext, 5)
    }
    socket.once('connect', sendNext)
  })
}
