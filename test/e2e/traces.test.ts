import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { QuotaClient } from '../../client/mod.ts'
import { startPlane } from '../../services/cli/plane/plane.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'
import {
  type CollectedSpan,
  type SpanCollector,
  startSpanCollector,
} from '../support/span-collector.ts'

let collector: SpanCollector
let plane: Plane

beforeAll(async () => {
  collector = await startSpanCollector()
  plane = await startPlane({
    regions: ['us-east-1'],
    linkDelayMs: 0,
    databaseUrl: null,
    ports: 'free',
    env: {
      ...process.env,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      // So that what arrives was sent because the services stopped.
      OTEL_BSP_SCHEDULE_DELAY: '3600000',
    },
    say: () => {},
    signal: new AbortController().signal,
  })
})
afterAll(async () => {
  await plane?.stop()
  await collector?.stop()
})

const aTrace = (digit: string) => ({
  traceId: digit.repeat(32),
  traceparent: `00-${digit.repeat(32)}-${'c'.repeat(16)}-01`,
})

/** A span of a trace, and that it lies below another. */
function spanBelow(
  trace: { readonly traceId: string },
  name: RegExp,
  parent?: CollectedSpan,
): CollectedSpan {
  const spans = collector.spans.filter(({ traceId }) => traceId === trace.traceId)
  const span = spans.find(
    (one) => name.test(one.name) && (parent === undefined || one.parentSpanId === parent.spanId),
  )
  const seen = spans.map((one) => `${one.service}: ${one.name}`).join('\n')
  if (span === undefined)
    throw new Error(`no span ${name} below ${parent?.name}; there are\n${seen}`)
  return span
}

describe('a plane whose services trace', () => {
  it('shows a change from its request over NATS to Redis, and a check, once they have stopped', async () => {
    const change = aTrace('d')
    const put = await fetch(`${plane.admin.url}/v1/domains/api/policies/traced`, {
      method: 'PUT',
      headers: {
        authorization: `Bearer ${plane.admin.token}`,
        'content-type': 'application/json',
        'if-none-match': '*',
        traceparent: change.traceparent,
      },
      body: JSON.stringify({
        match: [{ key: 'traced' }],
        limits: [
          {
            name: 'all',
            algorithm: 'token_bucket',
            capacity: 10,
            windowMs: 1_000,
            split: { 'us-east-1': 100 },
          },
        ],
      }),
    })
    expect(put.status, await put.clone().text()).toBe(201)
    const [enforcer] = plane.regions[0]?.enforcers ?? []
    const check = aTrace('e')
    const { traceparent } = check
    const client = new QuotaClient({
      urls: [enforcer?.url ?? ''],
      timeoutMs: 5_000,
      traceFields: () => ({ traceparent }),
    })
    const ask = () => client.check({ domain: 'api', descriptors: [{ traced: 'x' }], cost: 0 })
    await expect
      .poll(async () => (await ask()).decisions[0]?.policy, { timeout: 10_000 })
      .toBe('api/traced')
    await client.close()
    await plane.stop()

    const request = spanBelow(change, /^PUT \/v1\/domains\/:domain\/policies\/:name$/)
    expect(request).toMatchObject({ service: 'quotaplane-admin', parentSpanId: 'c'.repeat(16) })
    spanBelow(change, /^postgresql transaction$/, request)
    const announced = spanBelow(change, /^announce revision$/, request)
    const read = spanBelow(change, /^read policies$/, announced)
    expect(read.service).toBe('quotaplane-sync')
    expect(spanBelow(change, /^answer a region$/, read).service).toBe('quotaplane-admin')
    const applied = spanBelow(change, /^apply policies$/, read)
    spanBelow(change, /^redis writePolicies$/, applied)

    const served = spanBelow(check, /^POST \/v1\/check$/)
    expect(served).toMatchObject({ service: 'quotaplane-enforcer', isFailed: false })
    spanBelow(check, /^redis check$/)
    const ticks = collector.spans.filter(({ name }) => name === 'sync tick')
    // A loop that a traced change has woken is no part of that change.
    for (const tick of ticks) expect(tick.parentSpanId).toBeUndefined()
    const foreign = collector.spans.filter(
      ({ traceId, name }) => traceId === change.traceId && /tick|collect/.test(name),
    )
    expect(foreign).toEqual([])
  })
})
