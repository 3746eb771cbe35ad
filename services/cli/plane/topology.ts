import type { Child } from './child.ts'
import type { Links } from './links.ts'
import type { PostgresServer } from './postgres.ts'
import type { NatsServer, RedisServer } from './servers.ts'

/** Regions of a plane when none are named. */
export const DEFAULT_REGIONS = ['us-east-1', 'eu-west-1'] as const

/** Five processes a region: more than this is a mistake on one machine. */
export const LOCAL_REGIONS_MAX = 8

/** A service of the plane that answers HTTP. */
export interface RunningService {
  readonly child: Child
  readonly url: string
  /** Null for a service without gRPC. */
  readonly grpcPort: number | null
}

export interface RunningRegion {
  readonly region: string
  readonly redis: RedisServer
  readonly nats: NatsServer
  readonly enforcers: readonly RunningService[]
  readonly sync: RunningService
}

/** A plane on this machine, and the handles by which tests break it. */
export interface Plane {
  readonly admin: RunningService & { readonly token: string }
  readonly postgres: PostgresServer
  readonly regions: readonly RunningRegion[]
  readonly links: Links
  /** Folder of everything the plane keeps on disk; gone after `stop`. */
  readonly folder: string
  /** Called when a part ends although nobody asked it to. */
  onUnexpectedExit(handle: (child: Child, how: string) => void): void
  /** From here on, `path` is removed with the plane, also when the launcher is killed. */
  removeOnStop(path: string): void
  /** Ends every process and removes every file. Idempotent. */
  stop(): Promise<void>
}

/** What `up --json` prints. */
export interface PlaneDescription {
  readonly admin: { readonly url: string; readonly token: string; readonly pid: number }
  readonly postgres: { readonly url: string; readonly pid: number | null }
  readonly regions: readonly {
    readonly region: string
    readonly enforcers: readonly {
      readonly url: string
      readonly grpcPort: number | null
      readonly pid: number
    }[]
    readonly redis: { readonly port: number; readonly pid: number }
    readonly nats: { readonly port: number; readonly gatewayPort: number; readonly pid: number }
    readonly sync: { readonly url: string; readonly pid: number }
  }[]
  readonly pid: number
}

/** Everything that was started, as plain data. `pid` is the launcher's own. */
export function describePlane(plane: Plane, pid: number): PlaneDescription {
  const { admin, postgres } = plane
  return {
    admin: { url: admin.url, token: admin.token, pid: admin.child.pid },
    postgres: { url: postgres.url, pid: postgres.child?.pid ?? null },
    regions: plane.regions.map(({ region, redis, nats, enforcers, sync }) => ({
      region,
      enforcers: enforcers.map(({ url, grpcPort, child }) => ({ url, grpcPort, pid: child.pid })),
      redis: { port: redis.port, pid: redis.child.pid },
      nats: { port: nats.port, gatewayPort: nats.gatewayPort, pid: nats.child.pid },
      sync: { url: sync.url, pid: sync.child.pid },
    })),
    pid,
  }
}
