import { join } from 'node:path'
import {
  type ChannelCredentials,
  type Client,
  credentials,
  Metadata,
  makeClientConstructor,
  type ServiceDefinition as Service,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync, type Options } from '@grpc/proto-loader'
import { protoPath as healthProto } from 'grpc-health-check'
import { RLS_SERVICE, type RlsResponse } from '../../shared/protocol/rls-messages.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'

/** What a gateway sends, as much of it as a test names. */
export interface RlsCall {
  readonly domain: string
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[]
    readonly limit?: { readonly requests_per_unit: number; readonly unit: string }
    readonly hits_addend?: { readonly value: number | string }
  }[]
  readonly hits_addend?: number
}

export interface RlsClient {
  call(request: RlsCall, metadata?: Metadata): Promise<RlsResponse>
  close(): void
}

const OPTIONS: Options = {
  keepCase: true,
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
}

const OFFICIAL = join(PACKAGE_ROOT, 'node_modules/@grpc/grpc-js-xds/deps')

/** A client built from Envoy's own files, an older version without addends of single descriptors. */
export function officialClient(
  port: number,
  security: ChannelCredentials = credentials.createInsecure(),
): RlsClient {
  const folders = ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate']
  const options = { ...OPTIONS, includeDirs: folders.map((folder) => join(OFFICIAL, folder)) }
  return clientOf(port, options, security)
}

/** A client built from our files, which know the present fields; `longs` as its loader sends 64-bit numbers. */
export function presentClient(port: number): RlsClient {
  return clientOf(port, {
    ...OPTIONS,
    includeDirs: [join(PACKAGE_ROOT, 'shared/protocol/proto')],
  })
}

function clientOf(port: number, options: Options, security?: ChannelCredentials): RlsClient {
  const file = 'envoy/service/ratelimit/v3/rls.proto'
  const client = connect(port, file, { service: RLS_SERVICE, options, security })
  return {
    call: (request, metadata) => unary(client, 'ShouldRateLimit', request, metadata),
    close: () => client.close(),
  }
}

export interface HealthClient {
  check(service: string): Promise<{ readonly status: string }>
  /** Statuses told so far, and whether the stream has ended. */
  watch(service: string): { readonly told: string[]; hasEnded(): boolean }
  close(): void
}

export function healthClient(port: number): HealthClient {
  const client = connect(port, healthProto, { service: 'grpc.health.v1.Health', options: OPTIONS })
  return {
    check: (service) => unary(client, 'Check', { service }),
    watch(service) {
      const told: string[] = []
      let ended = false
      const stream = method(client, 'Watch')({ service })
      stream.on('data', (message: { status: string }) => told.push(message.status))
      stream.on('end', () => {
        ended = true
      })
      stream.on('error', () => {
        ended = true
      })
      return { told, hasEnded: () => ended }
    },
    close: () => client.close(),
  }
}

function connect(
  port: number,
  file: string,
  target: {
    readonly service: string
    readonly options: Options
    readonly security?: ChannelCredentials | undefined
  },
): Client {
  const { service, options, security = credentials.createInsecure() } = target
  const definition = loadSync(file, options)[service] as Service
  const Constructor = makeClientConstructor(definition, service)
  return new Constructor(`127.0.0.1:${port}`, security)
}

// biome-ignore lint/suspicious/noExplicitAny: clients made from a loaded definition have no static type.
function method(client: Client, name: string): (...args: unknown[]) => any {
  // biome-ignore lint/suspicious/noExplicitAny: see above.
  const found = (client as any)[name]
  return found.bind(client)
}

function unary<T>(
  client: Client,
  name: string,
  request: unknown,
  metadata = new Metadata(),
): Promise<T> {
  return new Promise((resolve, reject) => {
    method(client, name)(request, metadata, (err: ServiceError | null, response: T) => {
      if (err === null) resolve(response)
      else reject(err)
    })
  })
}
