/**
 * Checks a second of one enforcer process over a real Redis, beside a bare Fastify that parses and answers JSON.
 *
 * This file is also that Fastify: started with the argument `echo` it serves until it is stopped.
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Fastify from 'fastify'
import { startServer } from '../support/server-process.ts'
import { latencyMsP99, requestsPerSecond } from './http-load.ts'
import type { Prepared } from './measure.ts'
import { bucketPolicy, enforcerEnv, startBenchRegion } from './region.ts'

const SELF = fileURLToPath(import.meta.url)
const ROUND_MS = 2_000
const CAPACITY_NEVER_MET = 1_000_000

if (process.argv[2] === 'echo' && process.argv[1] === SELF) await serveEcho()

async function serveEcho(): Promise<void> {
  const app = Fastify()
  app.post('/v1/check', async (req) => req.body)
  process.stdout.write(`"url":"${await app.listen({ port: 0 })}"\n`)
}

export async function httpCheck(): Promise<Prepared> {
  const { enforcer, echo, stop } = await startBoth()
  return {
    contest: {
      name: 'http-check',
      unit: 'requests/s',
      peerName: 'Fastify echo of the same JSON',
      ours: () => requestsPerSecond(enforcer, ROUND_MS),
      peer: () => requestsPerSecond(echo, ROUND_MS),
    },
    stop,
  }
}

/** Each at half of what it answers at most, which is measured first. */
export async function httpCheckP99(): Promise<Prepared> {
  const { enforcer, echo, stop } = await startBoth()
  const half = async (port: number): Promise<number> =>
    (await requestsPerSecond(port, ROUND_MS)) / 2
  const halves = { ours: await half(enforcer), peer: await half(echo) }
  const p99 = (port: number, perSecond: number): Promise<number> =>
    latencyMsP99(port, { perSecond, roundMs: ROUND_MS })
  return {
    contest: {
      name: 'http-check-p99',
      unit: 'ms',
      peerName: 'Fastify echo of the same JSON, at half of its peak too',
      ours: () => p99(enforcer, halves.ours),
      peer: () => p99(echo, halves.peer),
    },
    stop,
  }
}

/** An enforcer and an echo, each a process of its own; their ports. */
async function startBoth(): Promise<{
  readonly enforcer: number
  readonly echo: number
  stop(): Promise<void>
}> {
  const region = await startBenchRegion(bucketPolicy(CAPACITY_NEVER_MET, 1_000))
  const env = enforcerEnv(region)
  const main = join(dirname(SELF), '../../services/enforcer/main.js')
  const enforcer = await startServer(process.execPath, [main], 'policies applied', { env })
  const echo = await startServer(process.execPath, [SELF, 'echo'], '"url"')
  return {
    enforcer: portIn(enforcer.log()),
    echo: portIn(echo.log()),
    async stop() {
      await Promise.all([enforcer.stop(), echo.stop()])
      await region.stop()
    },
  }
}

function portIn(log: string): number {
  return Number(/"url":"http:\/\/[^"]*:(\d+)"/.exec(log)?.[1])
}
