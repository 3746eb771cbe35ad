import {
  Counter,
  type CounterConfiguration,
  collectDefaultMetrics,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  type HistogramConfiguration,
  Registry,
} from 'prom-client'

/**
 * A registry of one process's own, so that several apps can live in one test process.
 *
 * `defaults` adds the process and Node.js metrics.
 */
export function createRegistry(labels: Record<string, string>, defaults: boolean): Registry {
  const registry = new Registry()
  registry.setDefaultLabels(labels)
  if (defaults) collectDefaultMetrics({ register: registry })
  return registry
}

export function counter<T extends string>(
  registry: Registry,
  config: CounterConfiguration<T>,
): Counter<T> {
  return new Counter({ ...config, registers: [registry] })
}

export function gauge<T extends string>(
  registry: Registry,
  config: GaugeConfiguration<T>,
): Gauge<T> {
  return new Gauge({ ...config, registers: [registry] })
}

export function histogram<T extends string>(
  registry: Registry,
  config: HistogramConfiguration<T>,
): Histogram<T> {
  return new Histogram({ ...config, registers: [registry] })
}

export type { Counter, Gauge, Histogram, Registry } from 'prom-client'
