/**
 * Metrics that are plain numbers until they are read, and write their own lines then.
 *
 * prom-client validates and hashes labels on each increment, which costs more than the rest of a check's bookkeeping,
 * and puts the labels of each series together on each reading: with a thousand policies that kept the process from
 * everything else for a tenth of a second. Here a check raises a number, and what stands before the number in the text
 * is written once for each series.
 */
import { Counter, Histogram, type Registry } from 'prom-client'

interface NamedMetric {
  readonly name: string
  readonly help: string
}

export interface DurationsConfig extends NamedMetric {
  /** Upper bounds, seconds, rising. */
  readonly buckets: readonly number[]
}

/** A number that is raised without any look-up. */
export interface Cell {
  count: number
}

/** The text format of Prometheus, or OpenMetrics, which leaves `_total` out of what it says about a counter. */
export type TextFormat = 'prometheus' | 'openmetrics'

/** A metric that writes its part of what Prometheus reads. */
export interface WrittenMetric {
  /** `common`: the labels that all series of the process have, as they stand in the text. */
  written(common: string, format: TextFormat): string
}

export function isWritten(metric: object): metric is WrittenMetric {
  return 'written' in metric
}

interface Series<Label extends string> {
  readonly labels: Record<Label, string>
  readonly cell: Cell
  /** What stands before its number; null until it is first read. */
  text: string | null
}

/** A counter whose series are all there from the start, so that a rate sees their first event. */
export class Tally<Label extends string = never> extends Counter<Label> implements WrittenMetric {
  readonly #name: string
  readonly #help: string
  readonly #series: Series<Label>[] = []

  constructor(
    registry: Registry,
    { name, help, labels = [] }: NamedMetric & { readonly labels?: readonly Label[] },
  ) {
    super({ name, help, labelNames: labels, registers: [registry] })
    this.#name = name
    this.#help = help
  }

  /** A new series. Its labels must come from a bounded set, and differ from those of every other. */
  cell(labels: Record<Label, string>): Cell {
    const cell = { count: 0 }
    this.#series.push({ labels, cell, text: null })
    return cell
  }

  override async get() {
    const values = this.#series.map(({ labels, cell }) => ({ labels, value: cell.count }))
    return { ...(await super.get()), values }
  }

  written(common: string, format: TextFormat): string {
    let text = headOf({ name: counterName(this.#name, format), help: this.#help }, 'counter')
    for (const one of this.#series) {
      one.text ??= `\n${seriesText(this.#name, labelsText(one.labels), common)} `
      text += one.text + one.cell.count
    }
    return text
  }
}

/** A histogram of durations without labels. */
export class Durations extends Histogram implements WrittenMetric {
  readonly #named: NamedMetric
  readonly #bounds: readonly number[]
  /** How many were at most each bound and more than the one before; the last are those beyond all. */
  readonly #counts: Float64Array
  #sum = 0

  constructor(registry: Registry, { buckets, ...named }: DurationsConfig) {
    super({ ...named, buckets: [...buckets], registers: [registry] })
    this.#named = named
    this.#bounds = buckets
    this.#counts = new Float64Array(buckets.length + 1)
  }

  add(seconds: number): void {
    const bounds = this.#bounds
    let index = 0
    while (index < bounds.length && seconds > (bounds[index] ?? 0)) index += 1
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += seconds
  }

  override async get() {
    const { name } = this.#named
    const values = this.#lines().map(({ suffix, le, value }) => {
      const labels: { le?: string } = le === null ? {} : { le }
      return { metricName: `${name}_${suffix}`, labels, value }
    })
    return { ...(await super.get()), values }
  }

  written(common: string): string {
    let text = headOf(this.#named, 'histogram')
    for (const { suffix, le, value } of this.#lines()) {
      const labels = le === null ? '' : labelsText({ le })
      text += `\n${seriesText(`${this.#named.name}_${suffix}`, labels, common)} ${value}`
    }
    return text
  }

  #lines(): { readonly suffix: string; readonly le: string | null; readonly value: number }[] {
    let count = 0
    const buckets = [...this.#counts].map((more, index) => {
      count += more
      return { suffix: 'bucket', le: String(this.#bounds[index] ?? '+Inf'), value: count }
    })
    return [
      ...buckets,
      { suffix: 'sum', le: null, value: this.#sum },
      { suffix: 'count', le: null, value: count },
    ]
  }
}

function headOf({ name, help }: NamedMetric, type: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}`
}

/** What a counter is called in the lines about it. */
export function counterName(name: string, format: TextFormat): string {
  return format === 'openmetrics' ? name.replace(/_total$/, '') : name
}

function seriesText(name: string, own: string, common: string): string {
  const labels = own === '' || common === '' ? own + common : `${own},${common}`
  return labels === '' ? name : `${name}{${labels}}`
}

/** `labels` as they stand in the text, without the braces. */
export function labelsText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',')
}

function escaped(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/\n/g, '\\n').replace(/"/g, '\\"')
}
