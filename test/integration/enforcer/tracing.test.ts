import { Metadata } from '@grpc/grpc-js'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { QuotaClient } from '../../../client/mod.ts'
import type { GrpcListener } from '../../../services/enforcer/enforcer.ts'
import { createLifecycle, type Lifecycle } from '../../../shared/runtime/lifecycle.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { openTracing } from '../../../shared/runtime/tracing/open.ts'
import { tracingEnv } from '../../../shared/runtime/tracing/settings.ts'
import { freePorts } from '../../support/free-ports.ts'
import { presentClient } from '../../support/rls-client.ts'
import {
  type CollectedSpan,
  type SpanCollector,
  startSpanCollector,
} from '../../support/span-collector.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const log = pino({ level: 'silent' })

let collector: SpanCollector
let region: TestRegion
let life: Lifecycle
let enforcer: TestEnforcer
let grpc: GrpcListener
let url: string

/** The tracer that a process with these settings has, and what it counts. */
async function tracing(env: Record<string, string>) {
  const config = z.object(tracingEnv).parse({
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '20',
    ...env,
  })
  const registry = createRegistry({}, false)
  const life = createLifecycle({ log, deadlineMs: 5_000 })
  const options = { config, service: 'enforcer', region: 'us-east-1', ratio: 0, closeMs: 2_000 }
  return { tracer: await openTracing({ ...options, log, registry, life }), life, registry }
}

beforeAll(async () => {
  collector = await startSpanCollector()
  region = await startRegion([
    aPolicy({ name: 'tenants', limits: [{ name: 'per-second', capacity: 1_000 }] }),
    aPolicy({ name: 'routes', match: [{ key: 'route' }], limits: [{ capacity: 1_000 }] }),
  ])
  const opened = await tracing({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
  life = opened.life
  enforcer = await region.startEnforcer({ tracer: opened.tracer })
  url = await enforcer.app.listen({ host: '127.0.0.1', port: 0 })
  grpc = await enforcer.listenGrpc('127.0.0.1', 0)
})
afterAll(async () => {
  await grpc?.drain(1_000)
  await life?.shutdown()
  await region?.stop()
  await collector?.stop()
})

let traces = 0

/** Who asks, in a trace of its own. */
function aCaller(flags = '01') {
  const traceId = (++traces).toString(16).padStart(32, 'a')
  const spanId = 'b'.repeat(16)
  return { traceId, spanId, fields: { traceparent: `00-${traceId}-${spanId}-${flags}` } }
}

/** The spans of a trace, once there are as many as are waited for. */
async function spansOf(traceId: string, count: number): Promise<readonly CollectedSpan[]> {
  const found = () => collector.spans.filter((span) => span.traceId === traceId)
  await expect.poll(() => found().length, { timeout: 10_000, interval: 20 }).toBe(count)
  return found()
}

const named = (spans: readonly CollectedSpan[], name: string): readonly CollectedSpan[] =>
  spans.filter((span) => span.name === name)

describe('a traced check', () => {
  it('leads from its caller over the enforcer to Redis, and names what decided, not who asked', async () => {
    const caller = aCaller()
    const client = new QuotaClient({
      urls: [url],
      timeoutMs: 5_000,
      traceFields: () => caller.fields,
    })
    const check = { domain: 'api', descriptors: [{ tenant: 'acme-the-customer' }] }
    expect((await client.check(check)).allowed).toBe(true)
    await client.close()
    const spans = await spansOf(caller.traceId, 2)
    expect(spans.filter(({ isFailed }) => isFailed)).toEqual([])
    const [server] = named(spans, 'POST /v1/check')
    const [redis] = named(spans, 'redis check')
    expect(server?.parentSpanId).toBe(caller.spanId)
    expect(redis?.parentSpanId).toBe(server?.spanId)
    expect(server?.notes).toMatchObject({
      'http.response.status_code': 200,
      'quotaplane.domain': 'api',
      'quotaplane.policy': 'tenants',
      'quotaplane.limit': 'per-second',
      'quotaplane.allowed': true,
    })
    expect(server?.service).toBe('quotaplane-enforcer')
    expect(redis?.notes).toMatchObject({ 'db.system.name': 'redis' })
    expect(JSON.stringify(spans)).not.toContain('acme-the-customer')
  })

  it('is shown by the bucket of its duration, in the format that has room for it', async () => {
    const caller = aCaller()
    const body = { domain: 'api', descriptors: [{ entries: [{ key: 'tenant', value: 'timed' }] }] }
    // One check in 16 is timed.
    for (let n = 0; n < 16; n++) {
      const headers = { 'content-type': 'application/json', ...caller.fields }
      await fetch(`${url}/v1/check`, { method: 'POST', headers, body: JSON.stringify(body) })
    }
    const scrape = await fetch(`${url}/metrics`)
    expect(scrape.headers.get('content-type')).toContain('application/openmetrics-text')
    const text = await scrape.text()
    expect(text).toMatch(
      new RegExp(
        `^quotaplane_check_duration_seconds_bucket\\{.*\\} \\d+ # \\{trace_id="${caller.traceId}",span_id="[0-9a-f]{16}"\\}`,
        'm',
      ),
    )
    expect(text).toMatch(/^quotaplane_checks_total\{.*outcome="allowed".*\} \d+$/m)
    expect(text.endsWith('# EOF\n')).toBe(true)
  })

  it('of several limits shows each call of Redis, also by the way of the framework', async () => {
    const caller = aCaller()
    const descriptors = [{ entries: [{ key: 'tenant', value: 'a' }] }].concat({
      entries: [{ key: 'route', value: '/b' }],
    })
    const reply = await fetch(`${url}/v1/check?deny=429`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...caller.fields },
      body: JSON.stringify({ domain: 'api', descriptors }),
    })
    expect(reply.status).toBe(200)
    const spans = await spansOf(caller.traceId, 3)
    const [server] = named(spans, 'POST /v1/check')
    const calls = named(spans, 'redis check')
    expect(calls.map((call) => call.parentSpanId)).toEqual([server?.spanId, server?.spanId])
    expect(server?.notes['http.route']).toBe('/v1/check')
  })

  it('takes its trace from the metadata of a gRPC call', async () => {
    const caller = aCaller()
    const metadata = new Metadata()
    metadata.set('traceparent', caller.fields.traceparent)
    const client = presentClient(grpc.port)
    const descriptors = [{ entries: [{ key: 'tenant', value: 'acme' }] }]
    const answer = await client.call({ domain: 'api', descriptors }, metadata)
    expect(answer.overall_code).toBe('OK')
    client.close()
    const spans = await spansOf(caller.traceId, 2)
    const [server] = named(spans, 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit')
    expect(server?.parentSpanId).toBe(caller.spanId)
    expect(named(spans, 'redis check')[0]?.parentSpanId).toBe(server?.spanId)
  })

  it('is not recorded when its caller does not record, nor are probes and scrapes', async () => {
    const silent = aCaller('00')
    const probe = aCaller()
    const loud = aCaller()
    const post = (fields: Record<string, string>) =>
      fetch(`${url}/v1/check`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...fields },
        body: JSON.stringify({
          domain: 'api',
          descriptors: [{ entries: [{ key: 'x', value: 'y' }] }],
        }),
      })
    await post(silent.fields)
    await fetch(`${url}/metrics`, { headers: probe.fields })
    await fetch(`${url}/readyz?verbose`, { headers: probe.fields })
    await post(loud.fields)
    // Spans leave in the order in which they end, so those that are missing by now never come.
    const [only] = await spansOf(loud.traceId, 1)
    expect(only?.notes['quotaplane.allowed']).toBe(true)
    expect(collector.spans.filter(({ traceId }) => traceId === silent.traceId)).toEqual([])
    expect(collector.spans.filter(({ traceId }) => traceId === probe.traceId)).toEqual([])
  })
})

describe('a collector that is away', () => {
  it('costs a bounded queue and a counter, and holds nobody', async () => {
    const [port = 0] = await freePorts(1)
    const { tracer, life, registry } = await tracing({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: '200',
      OTEL_TRACES_SAMPLER: 'always_on',
    })
    for (let n = 0; n < 5_000; n++) tracer?.begin({ name: 'check', kind: 'server' })?.end()
    const counted = async (outcome: string): Promise<number> => {
      const found = await registry.getSingleMetric('quotaplane_trace_spans_total')?.get()
      return found?.values.find(({ labels }) => labels['outcome'] === outcome)?.value ?? 0
    }
    expect(await counted('dropped')).toBe(5_000 - 2_048)
    await expect.poll(() => counted('failed'), { timeout: 10_000 }).toBeGreaterThan(0)
    const startedMs = performance.now()
    expect(await life.shutdown()).toEqual([])
    expect(performance.now() - startedMs).toBeLessThan(4_000)
    expect(await counted('exported')).toBe(0)
  })
})

describe('settings', () => {
  it('trace nothing where no collector is set, or tracing is switched off', async () => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }
    expect((await tracing({})).tracer).toBeUndefined()
    expect((await tracing({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).tracer).toBeUndefined()
    expect((await tracing({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).tracer).toBeUndefined()
  })

  it('send what the collector wants of header fields, and nothing of a sampler that is off', async () => {
    const { tracer, life } = await tracing({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20of-the-collector,x-team=limits',
      OTEL_SERVICE_NAME: 'by-setting',
      OTEL_TRACES_SAMPLER: 'parentbased_always_on',
    })
    tracer?.begin({ name: 'sync tick', kind: 'internal' })?.end()
    await life.shutdown()
    expect(collector.headers).toMatchObject({
      authorization: 'Bearer of-the-collector',
      'x-team': 'limits',
    })
    expect(collector.spans.filter(({ service }) => service === 'by-setting')).toHaveLength(1)
    const off = await tracing({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_TRACES_SAMPLER: 'always_off',
    })
    expect(off.tracer?.begin({ name: 'sync tick', kind: 'internal' })).toBeNull()
    await off.life.shutdown()
  })
})
