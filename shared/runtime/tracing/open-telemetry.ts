/**
 * Tracing by OpenTelemetry. Loaded only where a collector is set; the one file that knows its packages.
 *
 * The span around a call is kept by Node's own AsyncLocalStorage and not by OpenTelemetry's global context, so that
 * two apps in one process have nothing in common.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { hostname } from 'node:os'
import {
  type Attributes,
  type Context,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core'
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { PACKAGE_VERSION } from '../assets.ts'
import { createFailureLog } from '../failure-log.ts'
import { redactUrls } from '../logger.ts'
import type { SpanCounts, TracingOptions } from './open.ts'
import { pairsOf, type TracingConfig } from './settings.ts'
import type { Span, SpanNotes, SpanStart, TraceFields, Tracer } from './tracer.ts'

/** Spans that wait for the collector: some megabytes. What comes beyond is dropped and counted. */
const QUEUE_MAX = 2_048
const BATCH_MAX = 512

/** A note is a name or a number; what is longer was chosen by a caller. */
const NOTE_LENGTH_MAX = 256
const NOTES_MAX = 32

export interface OpenTracer {
  readonly tracer: Tracer
  /** Sends what waits, for at most so long. */
  close(withinMs: number): Promise<void>
}

export async function createTracer(
  options: TracingOptions & { readonly url: string; readonly counts: SpanCounts },
): Promise<OpenTracer> {
  const { config, counts, log } = options
  const exporter = countingExporter(await createExporter(options), counts, log)
  const queue = new BoundedQueue(
    new BatchSpanProcessor({
      exporter,
      maxQueueSize: QUEUE_MAX,
      maxExportBatchSize: BATCH_MAX,
      scheduledDelayMillis: config.OTEL_BSP_SCHEDULE_DELAY,
      exportTimeoutMillis: config.OTEL_EXPORTER_OTLP_TIMEOUT,
    }),
    counts,
  )
  const provider = new TracerProvider({
    resource: resourceOf(options),
    sampler: samplerOf(config, options.ratio),
    spanLimits: { attributeValueLengthLimit: NOTE_LENGTH_MAX, attributeCountLimit: NOTES_MAX },
    spanProcessors: [queue],
  })
  return {
    tracer: new OtelTracer(provider),
    close: async (withinMs) => {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, withinMs)
      })
      // A collector that is away has been counted, and must not hold the process.
      await Promise.race([provider.shutdown().catch(() => {}), late])
      clearTimeout(timer)
    },
  }
}

const KINDS: Readonly<Record<SpanStart['kind'], SpanKind>> = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
}

class OtelTracer implements Tracer {
  readonly #tracer
  readonly #propagator = new W3CTraceContextPropagator()
  readonly #around = new AsyncLocalStorage<RecordedSpan>()

  constructor(provider: TracerProvider) {
    this.#tracer = provider.getTracer('quotaplane', PACKAGE_VERSION)
  }

  begin({ name, kind, notes, from }: SpanStart): Span | null {
    const parent = this.#parentOf(from)
    if (kind === 'client' && trace.getSpan(parent) === undefined) return null
    const span = this.#tracer.startSpan(
      name,
      { kind: KINDS[kind], ...(notes !== undefined && { attributes: { ...notes } }) },
      parent,
    )
    return span.isRecording() ? new RecordedSpan(span) : null
  }

  inside<T>(span: Span, work: () => T): T {
    return span instanceof RecordedSpan ? this.#around.run(span, work) : work()
  }

  current(): Span | null {
    return this.#around.getStore() ?? null
  }

  fields(): TraceFields | undefined {
    const around = this.#around.getStore()
    if (around === undefined) return undefined
    const fields: Record<string, string> = {}
    this.#propagator.inject(trace.setSpan(ROOT_CONTEXT, around.otel), fields, {
      set: (carrier, key, value) => {
        carrier[key] = value
      },
    })
    return fields
  }

  #parentOf(from: SpanStart['from']): Context {
    if (from?.('traceparent') !== undefined) {
      return this.#propagator.extract(ROOT_CONTEXT, from, {
        get: (read, key) => read(key),
        keys: () => [],
      })
    }
    const around = this.#around.getStore()
    return around === undefined ? ROOT_CONTEXT : trace.setSpan(ROOT_CONTEXT, around.otel)
  }
}

class RecordedSpan implements Span {
  readonly otel: OtelSpan

  constructor(otel: OtelSpan) {
    this.otel = otel
  }

  get traceId(): string {
    return this.otel.spanContext().traceId
  }

  get spanId(): string {
    return this.otel.spanContext().spanId
  }

  rename(name: string): void {
    this.otel.updateName(name)
  }

  note(notes: SpanNotes): void {
    const attributes: Attributes = { ...notes }
    this.otel.setAttributes(attributes)
  }

  end(failure?: unknown): void {
    if (failure !== undefined) {
      const text = failure instanceof Error ? failure.message : String(failure)
      const message = redactUrls(text).slice(0, NOTE_LENGTH_MAX)
      this.otel.setStatus({ code: SpanStatusCode.ERROR, message })
    }
    this.otel.end()
  }
}

/** Drops by itself what the processor would drop without a word. */
class BoundedQueue implements SpanProcessor {
  readonly #next: SpanProcessor
  readonly #counts: SpanCounts
  #taken = 0

  constructor(next: SpanProcessor, counts: SpanCounts) {
    this.#next = next
    this.#counts = counts
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    const { exported, failed, dropped } = this.#counts
    if (this.#taken - exported - failed >= QUEUE_MAX) {
      this.#counts.dropped = dropped + 1
      return
    }
    this.#taken++
    this.#next.onEnd(span)
  }

  forceFlush(): Promise<void> {
    return this.#next.forceFlush()
  }

  shutdown(): Promise<void> {
    return this.#next.shutdown()
  }
}

/** Counts each batch once, and says once that the collector is away and once that it is back. */
function countingExporter(
  exporter: SpanExporter,
  counts: SpanCounts,
  log: TracingOptions['log'],
): SpanExporter {
  const failures = createFailureLog({
    log,
    fields: {},
    failedMessage: 'traces could not be sent',
    succeededMessage: 'traces are sent again',
  })
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const isSent = result.code === ExportResultCode.SUCCESS
        counts[isSent ? 'exported' : 'failed'] += spans.length
        if (isSent) failures.succeeded()
        else failures.failed(result.error)
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush !== undefined && {
      forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    }),
  }
}

async function createExporter({
  config,
  url,
}: {
  readonly config: TracingConfig
  readonly url: string
}): Promise<SpanExporter> {
  const options = {
    url,
    timeoutMillis: config.OTEL_EXPORTER_OTLP_TIMEOUT,
    headers: pairsOf(config.OTEL_EXPORTER_OTLP_HEADERS?.reveal()),
  }
  if (config.OTEL_EXPORTER_OTLP_PROTOCOL === 'http/json') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http')
    return new OTLPTraceExporter(options)
  }
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-proto')
  return new OTLPTraceExporter(options)
}

function resourceOf({ config, service, region }: TracingOptions) {
  return defaultResource().merge(
    resourceFromAttributes({
      'service.namespace': 'quotaplane',
      'service.version': PACKAGE_VERSION,
      'service.instance.id': `${hostname()}:${process.pid}`,
      ...(region !== undefined && { 'cloud.region': region }),
      ...pairsOf(config.OTEL_RESOURCE_ATTRIBUTES),
      'service.name': config.OTEL_SERVICE_NAME ?? `quotaplane-${service}`,
    }),
  )
}

function samplerOf(config: TracingConfig, usual: number): Sampler {
  const ratio = new TraceIdRatioBasedSampler(config.OTEL_TRACES_SAMPLER_ARG ?? usual)
  switch (config.OTEL_TRACES_SAMPLER) {
    case 'always_on':
      return new AlwaysOnSampler()
    case 'always_off':
      return new AlwaysOffSampler()
    case 'traceidratio':
      return ratio
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() })
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() })
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: ratio })
  }
}
