import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createAdminMetrics, observeState } from '../../services/admin/metrics.ts'
import { createClientLeaseCells } from '../../services/enforcer/client-lease-metrics.ts'
import { createEnforcerMetrics, observeEnforcer } from '../../services/enforcer/metrics.ts'
import {
  observeDenied,
  observeLeases,
  observeLocal,
} from '../../services/enforcer/observe-memory.ts'
import { observeStoreClock } from '../../services/enforcer/store-clock.ts'
import { observeStoreMemory } from '../../services/enforcer/store-memory.ts'
import { createSyncMetrics } from '../../services/sync/metrics.ts'
import { observeCertificates } from '../../shared/runtime/keep-certificates.ts'
import { createRegistry, observeBuild, type Registry } from '../../shared/runtime/metrics.ts'
import { observeSpans } from '../../shared/runtime/tracing/open.ts'

/** Gauges are only declared here, never collected, so what they read need not exist. */
const unread = {} as never

const declare: Readonly<Record<string, (registry: Registry) => void>> = {
  Enforcer(registry) {
    createEnforcerMetrics(registry).cellsOf('policy')
    observeEnforcer(registry, unread)
    observeLeases(registry, unread)
    observeLocal(registry, unread)
    observeDenied(registry, unread)
    createClientLeaseCells(registry)
    observeStoreMemory(registry, unread)
    observeStoreClock(registry, unread)
  },
  'Sync daemon'(registry) {
    createSyncMetrics(registry, () => true)
  },
  Admin(registry) {
    createAdminMetrics(registry)
    observeState(registry, unread)
  },
}

describe.each(Object.keys(declare))('docs/metrics.md, %s', (service) => {
  it('names every metric of the service with its type and labels, and no other', () => {
    const registry = createRegistry({}, false)
    declare[service]?.(registry)
    observeSpans(registry, unread)
    observeBuild(registry)
    observeCertificates(registry, unread)
    const declared = registry.getMetricsAsArray().map((metric) => {
      const { labelNames } = metric as unknown as { labelNames: readonly string[] }
      return `${metric.name} ${String(metric.type)} ${labelNames.filter((l) => l !== 'le').join(', ') || '–'}`
    })
    expect(documented(service)).toEqual(declared.sort())
  })
})

function documented(service: string): string[] {
  const [, after = ''] = readFileSync('docs/metrics.md', 'utf8').split(`\n## ${service}\n`)
  const [section = ''] = after.split('\n## ')
  return [...section.matchAll(/^\| `([^`]+)` \| (\w+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$/gm)]
    .map(([, name, type, labels]) => `${name} ${type} ${labels}`)
    .sort()
}
