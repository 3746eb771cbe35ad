import { describe, expect, it } from 'vitest'
import { countDecision, createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { buildPolicyIndex } from '../../../shared/core/policy-index.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'

const ADMIT = { allowed: true, reason: null, remaining: 9, resetMs: 100, retryAfterMs: null }

function seriesIn(text: string): string[] {
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
}

describe('the metrics of an enforcer', () => {
  it('have as many series after a hundred thousand keys as after one', async () => {
    const registry = createRegistry({ region: 'here' }, false)
    const metrics = createEnforcerMetrics(registry)
    const routes = new RouteTable(metrics.cellsOf)
    const policies = [aRegionPolicy()]
    const index = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
    const count = (key: number): void => {
      const entries = [{ key: 'tenant', value: `tenant-${key}` }]
      const route = routes.find(index, 'api', { entries })
      for (const limit of route.limits) countDecision(limit.cells, ADMIT, null)
    }
    count(0)
    const first = seriesIn(await registry.metrics())
    for (let key = 1; key < 100_000; key++) count(key)
    const all = seriesIn(await registry.metrics())
    expect(all).toHaveLength(first.length)
    expect(all.join('\n')).not.toContain('tenant-')
    expect(all).toContain(
      'quotaplane_decisions_total{policy="api/tenants",outcome="allowed",reason="none",region="here"} 100000',
    )
  })

  it('have series of their own for a thousand policies, and one more for all later ones', async () => {
    const registry = createRegistry({}, false)
    const { cellsOf } = createEnforcerMetrics(registry)
    for (let id = 0; id < 1_500; id++) countDecision(cellsOf(`api/${id}`), ADMIT, null)
    const text = await registry.metrics()
    const policies = new Set([...text.matchAll(/policy="([^"]*)"/g)].map(([, name]) => name))
    expect(policies.size).toBe(1_001)
    expect(text).toContain(
      'quotaplane_decisions_total{policy="other",outcome="allowed",reason="none"} 500\n',
    )
  })

  it('are read in far less than 100 ms with a thousand policies', async () => {
    const registry = createRegistry({ region: 'here' }, false)
    const { cellsOf } = createEnforcerMetrics(registry)
    for (let id = 0; id < 1_000; id++) {
      const { watched } = cellsOf(`api/${id}`)
      watched('shadow')
      watched('candidate')
    }
    const msToRead = async (): Promise<number> => {
      const began = process.cpuUsage()
      await registry.metrics()
      const { user, system } = process.cpuUsage(began)
      return (user + system) / 1_000
    }
    const readings = [await msToRead(), await msToRead(), await msToRead()]
    expect(Math.min(...readings)).toBeLessThan(50)
  })
})
