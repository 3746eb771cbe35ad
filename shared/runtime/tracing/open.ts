import type { Lifecycle } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'
import { counter, type Registry } from '../metrics.ts'
import { spansUrl, type TracingConfig } from './settings.ts'
import type { Tracer } from './tracer.ts'

/** What became of spans that were recorded. */
export interface SpanCounts {
  exported: number
  /** The collector refused them, or could not be reached. */
  failed: number
  /** More came than the queue holds. */
  dropped: number
}

export interface TracingOptions {
  readonly config: TracingConfig
  readonly service: string
  readonly region?: string
  /** Part of the traces begun here that are recorded, unless the settings say. */
  readonly ratio: number
  readonly log: Logger
  readonly registry: Registry
  readonly life: Lifecycle
  /** What sending the last spans may take when the process stops, ms. */
  readonly closeMs: number
}

/**
 * The tracer of a process; undefined where no collector is set, and then nothing of OpenTelemetry is loaded.
 *
 * Acquired first, so that it is closed last and the spans of what is under way at the end are sent too. A collector
 * that is away costs a bounded queue and `quotaplane_trace_spans_total`.
 */
export async function openTracing(options: TracingOptions): Promise<Tracer | undefined> {
  const { config, life, registry } = options
  const url = spansUrl(config)
  if (url === null) return undefined
  const counts: SpanCounts = { exported: 0, failed: 0, dropped: 0 }
  observeSpans(registry, counts)
  const { createTracer } = await import('./open-telemetry.ts')
  const { tracer } = await life.acquire(
    'tracing',
    () => createTracer({ ...options, url, counts }),
    (open) => open.close(options.closeMs),
  )
  return tracer
}

/** Declared only where there are spans. */
export function observeSpans(registry: Registry, counts: SpanCounts): void {
  const told: SpanCounts = { exported: 0, failed: 0, dropped: 0 }
  counter(registry, {
    name: 'quotaplane_trace_spans_total',
    help: 'Spans recorded, by what became of them.',
    labelNames: ['outcome'],
    collect() {
      for (const outcome of ['exported', 'failed', 'dropped'] as const) {
        this.inc({ outcome }, counts[outcome] - told[outcome])
        told[outcome] = counts[outcome]
      }
    },
  })
}
