import { expect, it } from 'vitest'
import { createSyncMetrics } from '../../../services/sync/metrics.ts'
import { createBusObserver } from '../../../services/sync/observe-bus.ts'
import { REGIONS_MAX } from '../../../shared/core/units.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'

it('made-up regions on the bus give a bounded number of series, and every refusal is counted', async () => {
  const registry = createRegistry({ region: 'here' }, false)
  const metrics = createSyncMetrics(registry, () => true)
  const { onRefused } = createBusObserver(metrics, createLogger({ service: 't', level: 'silent' }))
  const refusals = 10 * REGIONS_MAX
  for (let i = 0; i < refusals; i++) onRefused?.(`made-up-${i}`, 'newer_version', '9')
  const { values } = await metrics.recordsRefused.get()
  expect(values.length).toBe(2 * REGIONS_MAX + 1)
  expect(values.reduce((sum, { value }) => sum + value, 0)).toBe(refusals)
})
