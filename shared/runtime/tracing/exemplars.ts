import { Registry as PromRegistry } from 'prom-client'
import { histogram, type Registry } from '../metrics.ts'
import { Durations, type DurationsConfig } from '../tally.ts'
import type { Tracer } from './tracer.ts'

/** What takes durations, in seconds. */
export interface Timings {
  observe(seconds: number): void
}

/**
 * A histogram; with a tracer each bucket shows a trace of what fell into it last, and `registry` answers in the format
 * of OpenMetrics from then on, which alone has room for that.
 */
export function timings(
  registry: Registry,
  config: DurationsConfig,
  tracer: Tracer | undefined,
): Timings {
  if (tracer === undefined) {
    const durations = new Durations(registry, config)
    return { observe: (seconds) => durations.add(seconds) }
  }
  // The type says which format the registry was made for.
  const format: string = PromRegistry.OPENMETRICS_CONTENT_TYPE
  Reflect.apply(registry.setContentType, registry, [format])
  const all = histogram(registry, {
    ...config,
    buckets: [...config.buckets],
    enableExemplars: true,
  })
  return {
    observe(value) {
      const span = tracer.current()
      const exemplarLabels =
        span === null ? undefined : { trace_id: span.traceId, span_id: span.spanId }
      all.observe({ labels: {}, value, ...(exemplarLabels !== undefined && { exemplarLabels }) })
    },
  }
}
