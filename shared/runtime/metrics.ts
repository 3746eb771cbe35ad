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
import { PACKAGE_VERSION } from './assets.ts'
import { counterName, isWritten, labelsText, type TextFormat } from './tally.ts'

/** A registry whose metrics may write their own text (`tally.ts`). */
export class ServiceRegistry extends Registry {
  readonly #common: string

  constructor(labels: Readonly<Record<string, string>>) {
    super()
    this.setDefaultLabels(labels)
    this.#common = labelsText(labels)
  }

  override async metrics(): Promise<string> {
    return this.textOf(await this.families())
  }

  /** The text of each metric with all of its series: two lines about it, then one for each. */
  families(): Promise<string[]> {
    const format = this.#format
    return Promise.all(
      this.getMetricsAsArray().map(async (metric) => {
        if (isWritten(metric)) return metric.written(this.#common, format)
        const text = await this.getSingleMetricAsString(metric.name)
        const isCounter = String(metric.type) === 'counter'
        return isCounter && format === 'openmetrics' ? openCounter(metric.name, text) : text
      }),
    )
  }

  /** What `/metrics` says of `families`, of this registry or of several. */
  textOf(families: readonly string[]): string {
    return this.#format === 'prometheus'
      ? `${families.join('\n\n')}\n`
      : `${families.join('\n')}\n# EOF\n`
  }

  get #format(): TextFormat {
    const type: string = this.contentType
    return type === Registry.OPENMETRICS_CONTENT_TYPE ? 'openmetrics' : 'prometheus'
  }
}

/** prom-client appends `_total` to each series of a counter, and takes it off the name only in a reading of all. */
function openCounter(name: string, text: string): string {
  const short = counterName(name, 'openmetrics')
  return text
    .split('\n')
    .map((line) => {
      if (!line.startsWith('#')) return `${short}_total${line.slice(`${name}_total`.length)}`
      return line.replace(` ${name} `, ` ${short} `)
    })
    .join('\n')
}

/** The families of several registries, each metric once. Their labels must tell the registries apart. */
export function joinFamilies(all: readonly (readonly string[])[]): string[] {
  const byHead = new Map<string, string[]>()
  for (const family of all.flat()) {
    const [help, type, ...series] = family.split('\n')
    const head = `${help}\n${type}`
    byHead.set(head, [...(byHead.get(head) ?? []), ...series])
  }
  return [...byHead].map(([head, series]) => [head, ...series].join('\n'))
}

/**
 * A registry of one process's own, so that several apps can live in one test process.
 *
 * `defaults` adds the process and Node.js metrics, and which program it is.
 */
export function createRegistry(
  labels: Readonly<Record<string, string>>,
  defaults: boolean,
): ServiceRegistry {
  const registry = new ServiceRegistry(labels)
  if (defaults) {
    collectDefaultMetrics({ register: registry })
    observeBuild(registry)
  }
  return registry
}

/** Declares which program this is, as labels of a gauge that is always 1, so that other series can be joined with it. */
export function observeBuild(registry: Registry): void {
  const labelNames = ['version', 'node'] as const
  const help = 'Version of this program and of its Node.js; always 1.'
  const build = gauge(registry, { name: 'quotaplane_build_info', help, labelNames })
  build.set({ version: PACKAGE_VERSION, node: process.version }, 1)
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
