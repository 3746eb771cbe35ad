import type { Child } from './child.ts'
import type { Links } from './links.ts'
import type { PostgresServer } from './postgres.ts'
import type { NatsServer, RedisServer } from './servers.ts'
import type { Together } from './together.ts'

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
  /** By which they show decisions; without it, by the admin's token. */
  readonly debugToken?: string
  readonly sync: RunningService
  /** Daemons that take over from `sync`, or have. */
  readonly standbys?: readonly RunningService[]
}

/** What is started of a plane on this machine. */
export interface PlaneParts {
  readonly admin: RunningService & { readonly token: string }
  /** Admins beside the first. */
  readonly otherAdmins?: readonly RunningService[]
  readonly postgres: PostgresServer
  readonly regions: readonly RunningRegion[]
}

/** A plane on this machine, and the handles by which tests break it. Its folder is gone after `stop`. */
export interface Plane extends PlaneParts, Together {
  readonly links: Links
}

/** What `up --json` prints. */
export interface PlaneDescription {
  readonly admin: { readonly url: string; readonly token: string; readonly pid: number }
  readonly otherAdmins: readonly { readonly url: string; readonly pid: number }[]
  readonly postgres: { readonly url: string; readonly pid: number | null }
  readonly regions: readonly {
    readonly region: string
    readonly debugToken?: string
    readonly enforcers: readonly {
      readonly url: string
      readonly grpcPort: number | null
      readonly pid: number
    }[]
    readonly redis: { readonly port: number; readonly pid: number }
    readonly nats: { readonly port: number; readonly gatewayPort: number; readonly pid: number }
    readonly sync: { readonly url: string; readonly pid: number }
    readonly standbys: readonly { readonly url: string; readonly pid: number }[]
  }[]
  readonly pid: number
}

/** Everything that was started, as plain data. `pid` is the launcher's own. */
export function describePlane(plane: PlaneParts, pid: number): PlaneDescription {
  const { admin, otherAdmins = [], postgres } = plane
  const place = ({ url, child }: RunningService) => ({ url, pid: child.pid })
  return {
    admin: { ...place(admin), token: admin.token },
    otherAdmins: otherAdmins.map(place),
    postgres: { url: postgres.url, pid: postgres.child?.pid ?? null },
    regions: plane.regions.map(
      ({ region, debugToken, redis, nats, enforcers, sync, standbys = [] }) => ({
        region,
        ...(debugToken !== undefined && { debugToken }),
        enforcers: enforcers.map(({ url, grpcPort, child }) => ({ url, grpcPort, pid: child.pid })),
        redis: { port: redis.port, pid: redis.child.pid },
        nats: { port: nats.port, gatewayPort: nats.gatewayPort, pid: nats.child.pid },
        sync: place(sync),
        standbys: standbys.map(place),
      }),
    ),
    pid,
  }
}
