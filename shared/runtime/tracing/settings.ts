/** The environment variables of OpenTelemetry that the services heed, by the names of its specification. */
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { z } from 'zod'
import { durationMs, Secret } from '../env.ts'

const endpoint = z.string().regex(/^https?:\/\/\S+$/, {
  error: 'must be an http:// or https:// URL, such as http://127.0.0.1:4318',
})

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

const pairs = z.string().refine(arePairs, {
  error: 'must be name=value pairs, separated by commas',
})

/** What cannot be sent would fail with every batch, for as long as the service runs. */
const collectorFields = z
  .string()
  .refine((text) => arePairs(text) && areHeaderFields(pairsOf(text)), {
    error: 'must be name=value pairs that can be HTTP header fields, separated by commas',
  })
  .transform((text) => new Secret(text))

function arePairs(text: string): boolean {
  return text.split(',').every((pair) => pair.trim() === '' || /^[^=]*[^=\s][^=]*=/.test(pair))
}

function areHeaderFields(fields: Readonly<Record<string, string>>): boolean {
  try {
    for (const [name, value] of Object.entries(fields)) {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    }
    return true
  } catch {
    // What is wrong with it would quote it.
    return false
  }
}

export const tracingEnv = {
  /** Tracing is on where this, or the next one, is set. */
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint.optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: endpoint.optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: z
    .enum(['http/protobuf', 'http/json'], {
      error: 'must be http/protobuf or http/json; there is no exporter over gRPC here',
    })
    .default('http/protobuf'),
  /** `name=value` pairs separated by commas, such as a token of the collector. */
  OTEL_EXPORTER_OTLP_HEADERS: collectorFields.optional(),
  OTEL_EXPORTER_OTLP_TIMEOUT: durationMs.default(10_000),
  /** How long spans gather before they are sent. */
  OTEL_BSP_SCHEDULE_DELAY: durationMs.default(5_000),
  OTEL_SDK_DISABLED: z.enum(['true', 'false']).default('false'),
  OTEL_TRACES_EXPORTER: z.enum(['otlp', 'none'], { error: 'must be otlp or none' }).default('otlp'),
  OTEL_TRACES_SAMPLER: z.enum(SAMPLERS).default('parentbased_traceidratio'),
  /** Part of the traces that begin here; the enforcer's default is small, since each check would begin one. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).optional(),
  OTEL_SERVICE_NAME: z.string().min(1).optional(),
  /** `name=value` pairs separated by commas, percent-encoded. */
  OTEL_RESOURCE_ATTRIBUTES: pairs.optional(),
}

/** Those variables as they were read. */
export interface TracingConfig {
  readonly OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined
  readonly OTEL_EXPORTER_OTLP_TRACES_ENDPOINT?: string | undefined
  readonly OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' | 'http/json'
  readonly OTEL_EXPORTER_OTLP_HEADERS?: Secret | undefined
  readonly OTEL_EXPORTER_OTLP_TIMEOUT: number
  readonly OTEL_BSP_SCHEDULE_DELAY: number
  readonly OTEL_SDK_DISABLED: 'true' | 'false'
  readonly OTEL_TRACES_EXPORTER: 'otlp' | 'none'
  readonly OTEL_TRACES_SAMPLER: (typeof SAMPLERS)[number]
  readonly OTEL_TRACES_SAMPLER_ARG?: number | undefined
  readonly OTEL_SERVICE_NAME?: string | undefined
  readonly OTEL_RESOURCE_ATTRIBUTES?: string | undefined
}

/** Where spans go; null where tracing is off. */
export function spansUrl(config: TracingConfig): string | null {
  if (config.OTEL_SDK_DISABLED === 'true' || config.OTEL_TRACES_EXPORTER === 'none') return null
  const whole = config.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
  if (whole !== undefined) return whole
  const base = config.OTEL_EXPORTER_OTLP_ENDPOINT
  return base === undefined ? null : `${base.replace(/\/+$/, '')}/v1/traces`
}

/** `a=1,b=2`, as the specification writes lists; a pair that is none is left out. */
export function pairsOf(text: string | undefined): Readonly<Record<string, string>> {
  const pairs = (text ?? '').split(',').flatMap((pair) => {
    const [name = '', ...rest] = pair.split('=')
    const key = name.trim()
    return key === '' || rest.length === 0 ? [] : [[key, decoded(rest.join('=').trim())] as const]
  })
  return Object.fromEntries(pairs)
}

/** What is not percent-encoded as it should be was not meant to be. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
