import { readdirSync, readFileSync } from 'node:fs'
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

/** What is of that form and no metric. */
const OTHERS = ['quotaplane_service']

/** Suffixes of the series that a histogram is. */
const SERIES = ['', '_bucket', '_sum', '_count']

describe('a metric that is named anywhere', () => {
  it('is one that a service has, by its whole name', () => {
    const names = Object.keys(declare).flatMap((service) =>
      documented(service).map((line) => line.split(' ')[0] ?? ''),
    )
    const known = new Set(names.flatMap((name) => SERIES.map((suffix) => `${name}${suffix}`)))
    const unknown = textFiles().flatMap((path) =>
      // Sums of recording rules have colons in their names; test/unit/deploy/prometheus.test.ts compares those.
      [...readFileSync(path, 'utf8').matchAll(/(?<![:\w])quotaplane_[a-z0-9_]*[a-z0-9](?![:\w])/g)]
        .map(([name]) => name)
        .filter((name) => !known.has(name) && !OTHERS.includes(name))
        .map((name) => `${path}: ${name}`),
    )
    expect(names.length).toBeGreaterThan(80)
    expect(unknown).toEqual([])
  })
})

function textFiles(): readonly string[] {
  const folders = ['services', 'shared', 'client', 'deploy', 'docs'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  )
  const files = [...folders, 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md']
  return files.filter((path) => /\.(ts|tsx|md|json|ya?ml)$/.test(path))
}

function documented(service: string): string[] {
  const [, after = ''] = readFileSync('docs/metrics.md', 'utf8').split(`\n## ${service}\n`)
  const [section = ''] = after.split('\n## ')
  return [...section.matchAll(/^\| `([^`]+)` \| (\w+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$/gm)]
    .map(([, name, type, labels]) => `${name} ${type} ${labels}`)
    .sort()
}
