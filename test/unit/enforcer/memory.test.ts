import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import type { Verdict } from '../../../services/enforcer/conclude.ts'
import { decideThen } from '../../../services/enforcer/decide.ts'
import { DeniedKeys } from '../../../services/enforcer/denied-keys.ts'
import { LeaseBook } from '../../../services/enforcer/lease-book.ts'
import { LocalLimits } from '../../../services/enforcer/local-limits.ts'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'
import { buildPolicyIndex } from '../../../shared/core/policy-index.ts'
import type { SoleCheck } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { NEVER_ASKED } from '../../support/idle-store.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'

/** Long values, so that few keys fill what is kept: its bound is one on characters too. */
const VALUE_LENGTH = 480

/** How often what is kept turns over: until all of it is full, and after that, which takes about 12,000 keys each. */
const TURNS_TO_FILL = 2
const TURNS_AFTER = 5

/** What 60,000 keys may leave behind, MB: 100 bytes each, less than an entry for each would take. */
const GROWTH_MB_MAX = 6

const ADMIT = { allowed: true, reason: null, remaining: 9, resetMs: 100, retryAfterMs: null }
const REFUSE = {
  ...ADMIT,
  allowed: false,
  reason: 'limit',
  remaining: 0,
  retryAfterMs: 900,
} as const

/** An enforcer's memory over a store that admits every other key, denies the rest, and can be gone. */
function anEnforcer() {
  let asked = 0
  let isGone = false
  const ask = (check: SoleCheck): void => {
    if (isGone) check.failed(new QuotaError('QUOTA_STORE_UNAVAILABLE', 'gone'))
    else check.decided(asked++ % 2 === 0 ? ADMIT : REFUSE, 1)
  }
  const check = () => Promise.reject(new Error('one limit is asked for as one'))
  const metrics = createEnforcerMetrics(createRegistry({}, false))
  const policies = [aRegionPolicy({ onStoreFailure: 'local' })]
  const index = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
  const clock = systemClock
  const denied = new DeniedKeys({ log: { note: async () => {} }, clock })
  denied.hear(true)
  const grant = async () => null
  const leases = new LeaseBook({ store: { grant, giveUp: async () => {} }, clock, owner: 'me' })
  const local = new LocalLimits({ clock, liveEnforcers: () => 1 })
  const routes = new RouteTable(metrics.cellsOf)
  const context = {
    store: { ask, check, giveBack: async () => {}, ...NEVER_ASKED },
    policies: { current: () => index, refresh: async () => {} },
    routes,
    guard: new StoreGuard({ clock, onChange: () => {} }),
    metrics,
    denied,
    leases,
    local,
  }
  return {
    context,
    lose: (): void => {
      isGone = true
    },
  }
}

/** Decides checks of ever new tenants until the routes that are kept have turned over so often; gives the checks. */
async function decideUntil({ context }: ReturnType<typeof anEnforcer>, turns: number) {
  const { routes, denied } = context
  let asked = 0
  let answered = 0
  const waiter = {
    resolve: (_verdict: Verdict): void => {
      answered += 1
    },
    reject: (err: unknown): void => {
      throw err
    },
  }
  for (let seen = 0; seen < turns; ) {
    const before = routes.size
    const value = String(tenants++).padStart(VALUE_LENGTH, 'x')
    const descriptors = [{ entries: [{ key: 'tenant', value }] }]
    decideThen(context, { domain: 'api', descriptors, cost: 1 }, waiter)
    asked += 1
    if (routes.size < before) seen += 1
    // What is decided by promises is let go of now and then, as between requests.
    if (asked % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  await expect.poll(() => answered).toBe(asked)
  await denied.countOnce()
  return asked
}

let tenants = 0

function heapMb(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed / 1_000_000
}

describe('the memory of an enforcer', () => {
  it('stays as it is however many distinct keys are admitted and denied', async () => {
    const enforcer = anEnforcer()
    await decideUntil(enforcer, TURNS_TO_FILL)
    const before = heapMb()
    expect(await decideUntil(enforcer, TURNS_AFTER)).toBeGreaterThan(50_000)
    expect(heapMb() - before).toBeLessThan(GROWTH_MB_MAX)
    expect(enforcer.context.denied.size).toBeGreaterThan(1_000)
  })

  it('stays as it is however many distinct keys are decided without the store', async () => {
    const enforcer = anEnforcer()
    enforcer.lose()
    await decideUntil(enforcer, TURNS_TO_FILL)
    const before = heapMb()
    expect(await decideUntil(enforcer, TURNS_AFTER)).toBeGreaterThan(50_000)
    expect(heapMb() - before).toBeLessThan(GROWTH_MB_MAX)
    expect(enforcer.context.local.size).toBeGreaterThan(10_000)
  })
})
