/**
 * What tracing takes of an enforcer: its processor time for a check over HTTP with a collector set, beside the same
 * without. Processor time and not speed, since what is looked for is less than what a busy host takes away.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { startServer } from '../support/server-process.ts'
import { requestsPerSecond } from './http-load.ts'
import type { Prepared } from './measure.ts'
import { bucketPolicy, enforcerEnv, startBenchRegion } from './region.ts'

const ROUND_MS = 2_000
const CAPACITY_NEVER_MET = 1_000_000
const MAIN = join(PACKAGE_ROOT, 'dist/services/enforcer/main.js')

/** As an enforcer traces unless it is told otherwise: one check in a hundred of those that no caller traces. */
export function tracingCost(): Promise<Prepared> {
  return prepare('tracing-cost', {})
}

/** Every check recorded, as where every caller traces. */
export function tracingCostAll(): Promise<Prepared> {
  return prepare('tracing-cost-all', { OTEL_TRACES_SAMPLER_ARG: '1' })
}

async function prepare(
  name: string,
  settings: Readonly<Record<string, string>>,
): Promise<Prepared> {
  const region = await startBenchRegion(bucketPolicy(CAPACITY_NEVER_MET, 1_000))
  const collector = await startCollector()
  const start = async (more: Readonly<Record<string, string>>) => {
    const env = { ...enforcerEnv(region), ...more }
    const server = await startServer(process.execPath, [MAIN], 'policies applied', { env })
    const url = /"url":"(http:[^"]+)"/.exec(server.log())?.[1] ?? ''
    return { server, url }
  }
  const traced = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...settings })
  const plain = await start({})
  // What is compiled in its first second is no cost of a check.
  for (const { url } of [traced, plain]) await microsecondsPerCheck(url)
  return {
    contest: {
      name,
      unit: 'µs of processor a check',
      peerName: 'the same without tracing',
      ours: () => microsecondsPerCheck(traced.url),
      peer: () => microsecondsPerCheck(plain.url),
    },
    async stop() {
      await Promise.all([traced.server.stop(), plain.server.stop()])
      await collector.stop()
      await region.stop()
    },
  }
}

async function microsecondsPerCheck(url: string): Promise<number> {
  const before = await readFigures(url)
  await requestsPerSecond(Number(new URL(url).port), ROUND_MS)
  const after = await readFigures(url)
  return ((after.cpuSeconds - before.cpuSeconds) * 1_000_000) / (after.checks - before.checks)
}

async function readFigures(url: string): Promise<{ cpuSeconds: number; checks: number }> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const sum = (name: string): number =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+-]+)`, 'gm'))].reduce(
      (total, [, value]) => total + Number(value),
      0,
    )
  return { cpuSeconds: sum('process_cpu_seconds_total'), checks: sum('quotaplane_checks_total') }
}

/** Takes spans and throws them away; it runs in this process, which is not measured. */
async function startCollector(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const server = createServer((req, res) => {
    req.resume()
    req.once('end', () => res.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
