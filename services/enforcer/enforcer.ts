import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type {
  CheckStore,
  CheckTokenReader,
  DenialLog,
  EnforcerRoll,
  LeaseStore,
  NewsListener,
  PolicyReader,
} from '../../shared/core/ports.ts'
import type { HeaderChoice } from '../../shared/protocol/rate-limit-headers.ts'
import { PACKAGE_VERSION } from '../../shared/runtime/assets.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Secret } from '../../shared/runtime/env.ts'
import { every, type Loop } from '../../shared/runtime/every.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { ListenTls } from '../../shared/runtime/tls.ts'
import { traceRequests } from '../../shared/runtime/tracing/http.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'
import { createEnforcerApp } from './app.ts'
import type { SenderTrust } from './authorize-route.ts'
import { CallerBook } from './caller-book.ts'
import { CheckObserver } from './check-observer.ts'
import { CHECK_PATH } from './check-route.ts'
import { createClientLeaseCells } from './client-lease-metrics.ts'
import { ClientLeases } from './client-leases.ts'
import { DecisionLog } from './decision-log.ts'
import { DENIALS_TICK_MS, DeniedKeys } from './denied-keys.ts'
import { createGrpcServer, type GrpcServer } from './grpc/server.ts'
import { LEASE_TICK_MS, LeaseBook } from './lease-book.ts'
import { LiveEnforcers } from './live-enforcers.ts'
import { LocalLimits } from './local-limits.ts'
import { createEnforcerMetrics, observeEnforcer } from './metrics.ts'
import { observeDenied, observeLeases, observeLocal } from './observe-memory.ts'
import { PolicyCache } from './policy-cache.ts'
import { RouteTable } from './routes.ts'
import { CHECKS_IN_FLIGHT_MAX } from './run-check.ts'
import type { DecideContext } from './slot-group.ts'
import { StoreGuard } from './store-guard.ts'
import { STORE_TICK_MS, StoreWatch, type StoreWatchOptions } from './store-watch.ts'
import { traceStore } from './traced-store.ts'

/**
 * How often each loop runs, and how long a step may take: far above what its parts allow themselves, so that only a
 * bug reaches it.
 */
const LOOPS = {
  // A change must be in force within 2 s, of which the way from admin to the region's Redis takes most; one GET five
  // times a second is nothing to Redis.
  policies: { intervalMs: 200, timeoutMs: 10_000 },
  leases: { intervalMs: LEASE_TICK_MS, timeoutMs: 10_000 },
  roll: { intervalMs: 1_000, timeoutMs: 10_000 },
  denials: { intervalMs: DENIALS_TICK_MS, timeoutMs: 10_000 },
  // A revoked token must be refused within seconds, of which the way to the region's Redis takes one or two.
  tokens: { intervalMs: 200, timeoutMs: 10_000 },
  store: { intervalMs: STORE_TICK_MS, timeoutMs: 10_000 },
}

/** Of an id that no other process ever had: enough for all that could be alive within one lease. */
const OWNER_LENGTH = 13

const NO_DENIALS: DenialLog = { note: () => Promise.resolve() }

const NO_LEASES: LeaseStore = {
  grant: () => Promise.resolve(null),
  giveUp: () => Promise.resolve(),
}

export interface EnforcerOptions extends StoreWatchOptions {
  readonly region: string
  /** Where operators find this enforcer; shown where it is told what each applies. */
  readonly name?: string
  readonly store: CheckStore
  /** Without it no counter is leased. */
  readonly leaseStore?: LeaseStore
  /** Without it each denial asks Redis. */
  readonly denialLog?: DenialLog
  /** Without it this enforcer takes itself for the only one of its region. */
  readonly roll?: EnforcerRoll
  readonly reader: PolicyReader
  /** Without it callers are not asked who they are. */
  readonly tokenReader?: CheckTokenReader | undefined
  readonly clock: Clock
  /** Of HTTP and gRPC; null or not given: both listen without TLS. */
  readonly tls?: ListenTls | null
  /** As of `createEnforcerApp`. */
  readonly metricsText?: (() => Promise<string>) | undefined
  /** Times that this process kept replies from being read in time. */
  readonly loopStalls?: { readonly count: number }
  readonly isRunning: () => boolean
  /** The rate limit header fields of answers whose request does not choose. */
  readonly headers: HeaderChoice
  readonly sender: SenderTrust
  /** Without it nothing is traced. */
  readonly tracer?: Tracer | undefined
  /** Without it nobody is shown decisions. */
  readonly debugToken?: Secret | undefined
}

export interface GrpcListener {
  readonly port: number
  /** Health says from now on that nothing is served; calls are still answered. */
  leave(): void
  /** As `GrpcServer.drain`. */
  drain(withinMs: number): Promise<void>
}

/** An enforcer that does not listen yet. */
export interface Enforcer {
  readonly app: FastifyInstance
  readonly policies: PolicyCache
  /** Whether it can answer: policies are known, and tokens where callers are asked who they are. */
  isAble(): boolean
  /** Serves gRPC; gives the port. Health says serving once policies are known. */
  listenGrpc(host: string, port: number): Promise<GrpcListener>
  /** Tells the region's Redis that this enforcer is alive until the loop is stopped; `leave` takes it off the roll. */
  keepOnRoll(onBug: (err: Error) => void): Loop
  leave(): Promise<void>
  /** Keeps leases in good order until the loop is stopped; `giveUpLeases` then gives them back. */
  keepLeases(onBug: (err: Error) => void): Loop
  giveUpLeases(): Promise<void>
  /** To be told what happens in the region's Redis. */
  readonly news: NewsListener
  /** Counts in Redis what was denied without it, until the loop is stopped; `countDenials` does the rest. */
  keepDenials(onBug: (err: Error) => void): Loop
  /** Looks at how Redis is set up, from its first answer to `followPolicies` until the loop is stopped. */
  watchStore(onBug: (err: Error) => void): Loop
  countDenials(): Promise<void>
  /** Follows the tokens for checks until the loop is stopped, where callers are asked who they are. */
  followTokens(onBug: (err: Error) => void): Loop
  /** Follows the region's policies until the loop is stopped. */
  followPolicies(onBug: (err: Error) => void): Loop
}

/** A plain check is answered before there is a route; no other path may become a name. */
function traceChecks(app: FastifyInstance, tracer: Tracer | undefined): FastifyInstance {
  if (tracer === undefined) return app
  traceRequests(app, {
    tracer,
    isTraced: ({ url = '' }) => !UNTRACED.test(url),
    nameOf: ({ method = '', url }) => (url === CHECK_PATH ? `${method} ${CHECK_PATH}` : method),
  })
  return app
}

/** What is asked for all day by probes and scrapers. */
const UNTRACED = /^\/(livez|readyz|healthz|healthcheck|metrics|openapi\.json)/

function createGuard(clock: Clock, log: Logger): StoreGuard {
  return new StoreGuard({
    clock,
    onChange: (change) => {
      if (change === 'opened') log.warn('store does not decide; policies say what to answer')
      else if (change === 'lasting') log.error('store has not decided for over a second')
      else log.info('store decides again')
    },
  })
}

/** What this process keeps of the region's state, and who else does. */
function createMemory(options: EnforcerOptions, policies: PolicyCache) {
  const { leaseStore, denialLog, roll: enforcers, clock, registry } = options
  const owner = randomUUID().slice(0, OWNER_LENGTH)
  const leases = new LeaseBook({ store: leaseStore ?? NO_LEASES, clock, owner })
  const name = options.name ?? owner
  const roll = new LiveEnforcers(enforcers ?? null, owner, () => ({
    name,
    version: PACKAGE_VERSION,
    ...policies.applied,
  }))
  const local = new LocalLimits({ clock, liveEnforcers: () => roll.live })
  const denied = new DeniedKeys({ log: denialLog ?? NO_DENIALS, clock })
  observeLocal(registry, { liveEnforcers: () => roll.live, countersKept: () => local.size })
  observeLeases(registry, leases)
  observeDenied(registry, denied)
  return { leases, roll, local, denied }
}

function leasesForClients(
  { leaseStore, registry }: EnforcerOptions,
  context: DecideContext,
): ClientLeases {
  const cells = createClientLeaseCells(registry)
  return new ClientLeases({ store: leaseStore ?? null, context, cells })
}

function newsFor(denied: DeniedKeys, wake: () => void): NewsListener {
  return {
    grown: (counter) => denied.grown(counter),
    policiesChanged() {
      denied.forgetAll()
      wake()
    },
    heard: () => denied.hear(true),
    silent: () => denied.hear(false),
  }
}

function policyFigures(policies: PolicyCache) {
  return {
    policyVersion: () => policies.current()?.version ?? 0,
    policyRevision: () => policies.current()?.revision ?? 0,
    policyAgeMs: () => policies.ageMs(),
  }
}

/** Joins the parts of an enforcer over a store and a reader of policies. */
export function createEnforcer(options: EnforcerOptions): Enforcer {
  const { reader, tokenReader, clock, log, registry, isRunning, headers, tracer } = options
  const store = tracer === undefined ? options.store : traceStore(options.store, tracer)
  const loops: Loop[] = []
  // The figures of several processes are summed, and traces have no sum.
  const metrics = createEnforcerMetrics(registry, options.metricsText ? undefined : tracer)
  let rollLoop: Loop | null = null
  const policies = new PolicyCache({ reader, clock, log, onApplied: () => rollLoop?.wake() })
  const routes = new RouteTable(metrics.cellsOf)
  const inFlight = { count: 0, max: CHECKS_IN_FLIGHT_MAX }
  const guard = createGuard(clock, log)
  observeEnforcer(registry, {
    ...policyFigures(policies),
    isGuardOpen: () => guard.isOpen,
    loopStalls: () => options.loopStalls?.count ?? 0,
    checksInFlight: () => inFlight.count,
    routesKept: () => routes.size,
    loops: () => loops,
  })
  const { leases, roll, local, denied } = createMemory(options, policies)
  const watch = new StoreWatch(options)
  const context = { store, policies, routes, guard, metrics, leases, local, denied }
  const callers = tokenReader && new CallerBook({ reader: tokenReader, clock, log })
  const observer = new CheckObserver(new DecisionLog(clock), tracer)
  const runner = { context, inFlight, clock, headers, observer, callers }
  const clientLeases = leasesForClients(options, context)
  let grpc: GrpcServer | null = null
  let following: Loop | null = null
  const isAble = (): boolean => policies.current() !== null && callers?.isKnown !== false
  const showHealth = (): void => grpc?.setServing(isRunning() && isAble())
  const repeat = (name: keyof typeof LOOPS, step: () => Promise<void>) => {
    return (onBug: (err: Error) => void): Loop => {
      const loop = every({ name, ...LOOPS[name], log, onBug }, step)
      loops.push(loop)
      return loop
    }
  }
  const follow = repeat('policies', async () => {
    await policies.pollOnce()
    watch.answered()
    showHealth()
  })
  return {
    app: traceChecks(createEnforcerApp({ ...options, ...runner, watch, clientLeases }), tracer),
    policies,
    isAble,
    async listenGrpc(host, port) {
      grpc = createGrpcServer({ ...runner, log, tracer, tls: options.tls ?? null })
      showHealth()
      const bound = await grpc.listen(host, port)
      return { port: bound, leave: showHealth, drain: grpc.drain }
    },
    leave: () => roll.leave(),
    keepOnRoll(onBug) {
      rollLoop = repeat('roll', () => roll.beatOnce())(onBug)
      return rollLoop
    },
    giveUpLeases: () => leases.close(),
    keepLeases: repeat('leases', () => leases.tick()),
    news: newsFor(denied, () => following?.wake()),
    countDenials: () => denied.countOnce(),
    keepDenials: repeat('denials', () => denied.countOnce()),
    watchStore: (onBug) => watch.keepLooking(repeat('store', () => watch.lookOnce())(onBug)),
    followTokens: repeat('tokens', async () => await callers?.pollOnce()),
    followPolicies(onBug) {
      following = follow(onBug)
      return following
    },
  }
}
