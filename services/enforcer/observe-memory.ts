/** Metrics of what an enforcer holds in memory: leases, denials, and what decides while Redis does not. */
import { counter, gauge, type Registry } from '../../shared/runtime/metrics.ts'
import type { LeaseCounts } from './lease-book.ts'

/** Declares what is known of leases; read when scraped. */
export function observeLeases(
  registry: Registry,
  leases: { readonly size: number; readonly counts: LeaseCounts },
): void {
  gauge(registry, {
    name: 'quotaplane_leases_held',
    help: 'Counters whose tokens are taken in blocks.',
    collect() {
      this.set(leases.size)
    },
  })
  const told: Record<keyof LeaseCounts, number> = { granted: 0, returned: 0, admitted: 0 }
  counter<'kind'>(registry, {
    name: 'quotaplane_lease_tokens_total',
    help: 'Tokens taken in blocks, given back, and admitted out of them.',
    labelNames: ['kind'],
    collect() {
      for (const kind of ['granted', 'returned', 'admitted'] as const) {
        this.inc({ kind }, leases.counts[kind] - told[kind])
        told[kind] = leases.counts[kind]
      }
    },
  })
}

/** Declares what decides while the store does not. */
export function observeLocal(
  registry: Registry,
  state: { readonly liveEnforcers: () => number; readonly countersKept: () => number },
): void {
  gauge(registry, {
    name: 'quotaplane_live_enforcers',
    help: 'Enforcers of the region when Redis last said.',
    collect() {
      this.set(state.liveEnforcers())
    },
  })
  gauge(registry, {
    name: 'quotaplane_local_counters_kept',
    help: 'Counters in memory, for policies that decide locally while Redis does not.',
    collect() {
      this.set(state.countersKept())
    },
  })
}

/** Declares what is known of denials that stay true; read when scraped. */
export function observeDenied(
  registry: Registry,
  state: { readonly size: number; readonly denied: number; readonly isHeard: boolean },
): void {
  let told = 0
  counter(registry, {
    name: 'quotaplane_denials_from_memory_total',
    help: 'Checks denied without asking Redis, by what it had said of the wait.',
    collect() {
      this.inc(state.denied - told)
      told = state.denied
    },
  })
  gauge(registry, {
    name: 'quotaplane_denied_keys_kept',
    help: 'Counters known to deny.',
    collect() {
      this.set(state.size)
    },
  })
  gauge(registry, {
    name: 'quotaplane_news_heard',
    help: "1 while the region's Redis tells of what changes; otherwise each denial asks Redis.",
    collect() {
      this.set(Number(state.isHeard))
    },
  })
}
