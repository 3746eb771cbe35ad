import type {
  handleUnaryCall,
  ServerWritableStream,
  UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { status } from '@grpc/grpc-js'

export interface HealthRequest {
  readonly service: string
}

interface HealthResponse {
  readonly status: 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN'
}

type Watch = ServerWritableStream<HealthRequest, HealthResponse>

/** Load balancers watch with one stream each; more than this is a caller that leaks them. */
const WATCHES_MAX = 1_024

/**
 * grpc.health.v1 for the whole server (an empty name) and its services.
 *
 * Written here because streams of `Watch` never end by themselves, and a drain waits for every stream: `close`
 * tells each that nothing is served any more and ends it.
 */
export class Health {
  readonly #names: ReadonlySet<string>
  readonly #watches = new Set<Watch>()
  #isServing = false
  #isClosed = false

  constructor(services: readonly string[]) {
    this.#names = new Set(['', ...services])
  }

  /** Tells watchers when it has changed. */
  set(isServing: boolean): void {
    if (isServing === this.#isServing || this.#isClosed) return
    this.#isServing = isServing
    for (const watch of this.#watches) watch.write(this.#response())
  }

  /** Serves no more, tells so, and ends every watch. */
  close(): void {
    this.set(false)
    this.#isClosed = true
    for (const watch of this.#watches) watch.end()
    this.#watches.clear()
  }

  /** For `Server.addService` with the service definition of grpc-health-check. */
  implementation(): UntypedServiceImplementation {
    const check: handleUnaryCall<HealthRequest, HealthResponse> = ({ request }, callback) => {
      if (this.#names.has(request.service)) return callback(null, this.#response())
      callback({ code: status.NOT_FOUND, details: `there is no service ${request.service}` })
    }
    return { check, watch: (call: Watch) => this.#watch(call) }
  }

  #watch(call: Watch): void {
    if (!this.#names.has(call.request.service)) {
      call.write({ status: 'SERVICE_UNKNOWN' })
      call.end()
      return
    }
    call.write(this.#response())
    if (this.#isClosed || this.#watches.size >= WATCHES_MAX) {
      call.end()
      return
    }
    this.#watches.add(call)
    call.on('cancelled', () => this.#watches.delete(call))
    call.on('error', () => this.#watches.delete(call))
  }

  #response(): HealthResponse {
    return { status: this.#isServing ? 'SERVING' : 'NOT_SERVING' }
  }
}
