import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { retryOnTakenPort } from './ports.ts'
import { type Launch, launchChild } from './servers.ts'
import type { RunningService } from './topology.ts'

/** Each service logs one line with its `url` once it listens. */
const LISTENING = /"url":"(http:\/\/[^"]+)"/

const PROBE_TIMEOUT_MS = 1_000
const PROBE_EVERY_MS = 50

export interface ServiceSpec {
  readonly service: 'admin' | 'enforcer' | 'sync'
  readonly name: string
  readonly usualPort: number
  /** Of a service that serves gRPC too; by its setting `…_GRPC_PORT`. */
  readonly usualGrpcPort?: number
  readonly env: Readonly<Record<string, string>>
}

/** Starts one of our own services from dist and resolves once it listens. */
export function startService(launch: Launch, spec: ServiceSpec): Promise<RunningService> {
  const prefix = spec.service.toUpperCase()
  return retryOnTakenPort(async () => {
    // Both are asked for at once, so that the second lies beside the first.
    const [port, grpcPort] = await Promise.all([
      launch.ports.take(spec.usualPort),
      spec.usualGrpcPort === undefined ? null : launch.ports.take(spec.usualGrpcPort),
    ])
    const { child, readyValue } = await launchChild(launch, {
      name: spec.name,
      command: process.execPath,
      args: ['--enable-source-maps', join(PACKAGE_ROOT, 'dist/services', spec.service, 'main.js')],
      env: {
        ...launch.env,
        ...spec.env,
        [`${prefix}_HOST`]: '127.0.0.1',
        [`${prefix}_PORT`]: String(port),
        ...(grpcPort !== null && { [`${prefix}_GRPC_PORT`]: String(grpcPort) }),
      },
      cwd: PACKAGE_ROOT,
      ready: LISTENING,
    })
    return { child, url: readyValue, grpcPort }
  })
}

/** Waits until the service's `/readyz` answers 200; rejects with what it waits for and the end of its log. */
export async function whenReady(
  service: RunningService,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs
  let last = 'it did not answer'
  while (performance.now() < deadlineMs) {
    signal.throwIfAborted()
    if (!service.child.isRunning) throw service.child.failure('ended')
    const answer = await probe(`${service.url}/readyz`)
    if (answer === 'ready') return
    last = answer
    await delay(PROBE_EVERY_MS)
  }
  throw service.child.failure(`was not ready in time: ${last}`)
}

async function probe(url: string): Promise<string> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) })
    const text = await response.text()
    return response.status === 200 ? 'ready' : text
  } catch (err) {
    return String(err)
  }
}
