import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'

/** A span as a collector is told of it, with the service that it comes from. */
export interface CollectedSpan {
  readonly service: string
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly notes: Readonly<Record<string, unknown>>
  readonly isFailed: boolean
}

export interface SpanCollector {
  readonly url: string
  readonly spans: readonly CollectedSpan[]
  /** Header fields of the last request. */
  readonly headers: Readonly<Record<string, unknown>>
  stop(): Promise<void>
}

const value = z.looseObject({
  stringValue: z.string().optional(),
  intValue: z.union([z.string(), z.number()]).optional(),
  boolValue: z.boolean().optional(),
})
const attributes = z.array(z.object({ key: z.string(), value }))

/** As much of OTLP's ExportTraceServiceRequest in JSON as is looked at. */
const exportRequest = z.object({
  resourceSpans: z.array(
    z.looseObject({
      resource: z.looseObject({ attributes }),
      scopeSpans: z.array(
        z.looseObject({
          spans: z.array(
            z.looseObject({
              traceId: z.string().regex(/^[0-9a-f]{32}$/),
              spanId: z.string().regex(/^[0-9a-f]{16}$/),
              parentSpanId: z.string().optional(),
              name: z.string(),
              attributes,
              status: z.looseObject({ code: z.number().optional() }).optional(),
            }),
          ),
        }),
      ),
    }),
  ),
})

/** A receiver of OTLP over HTTP in JSON, on a port of its own. */
export async function startSpanCollector(): Promise<SpanCollector> {
  const spans: CollectedSpan[] = []
  const last = { headers: {} }
  const server = createServer((req, res) => {
    let body = ''
    req.setEncoding('utf8')
    req.on('data', (chunk: string) => {
      body += chunk
    })
    req.on('end', () => {
      const isExport = req.method === 'POST' && req.url === '/v1/traces'
      last.headers = req.headers
      if (isExport) spans.push(...spansOf(exportRequest.parse(JSON.parse(body))))
      res.writeHead(isExport ? 200 : 404, { 'content-type': 'application/json' }).end('{}')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    get headers() {
      return last.headers
    },
    async stop() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function spansOf({ resourceSpans }: z.infer<typeof exportRequest>): readonly CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(notesOf(resource.attributes)['service.name'])
    return scopeSpans
      .flatMap((scope) => scope.spans)
      .map(({ name, traceId, spanId, parentSpanId, attributes, status }) => ({
        service,
        name,
        traceId,
        spanId,
        parentSpanId: parentSpanId === '' ? undefined : parentSpanId,
        notes: notesOf(attributes),
        isFailed: status?.code === 2,
      }))
  })
}

function notesOf(pairs: z.infer<typeof attributes>): Record<string, unknown> {
  const entries = pairs.map(({ key, value: { stringValue, intValue, boolValue } }) => [
    key,
    stringValue ?? (intValue === undefined ? boolValue : Number(intValue)),
  ])
  return Object.fromEntries(entries)
}
