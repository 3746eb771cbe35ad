import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'

/** One thing a service needs before it can do its work, or wants and can do without (`isRequired` false). */
export interface ReadinessCheck {
  readonly name: string
  readonly isRequired: boolean
  readonly isReady: () => boolean
  /** What is wrong, for whoever reads `?verbose`. */
  readonly detail?: () => string
}

/**
 * Adds `/livez` (the process works; no dependency is asked), `/readyz` (it can do its work; `?verbose` lists
 * each check) and `/metrics`.
 */
export function useHealth(
  app: FastifyInstance,
  options: {
    checks: readonly ReadinessCheck[]
    isRunning: () => boolean
    registry: Registry
    metricsText?: (() => Promise<string>) | undefined
  },
): void {
  app.get('/livez', { schema: schemaOf('The process works') }, () => ({ status: 'ok' }))
  app.get('/healthz', { schema: schemaOf('As /livez') }, () => ({ status: 'ok' }))
  app.get<{ Querystring: { verbose?: string } }>(
    '/readyz',
    { schema: schemaOf('Whether it can do its work (?verbose: each check)') },
    (req, reply) => {
      const checks = [
        { name: 'running', isRequired: true, ready: options.isRunning() },
        ...options.checks.map(({ name, isRequired, isReady, detail }) => {
          const ready = isReady()
          const because = ready || detail === undefined ? {} : { detail: detail() }
          return { name, isRequired, ready, ...because }
        }),
      ]
      const isReady = checks.every((check) => check.ready || !check.isRequired)
      void reply.code(isReady ? 200 : 503)
      const status = isReady ? 'ready' : 'not ready'
      const waitingFor = checks.filter((check) => !check.ready).map((check) => check.name)
      return { status, waitingFor, ...(req.query.verbose !== undefined && { checks }) }
    },
  )
  app.get(
    '/metrics',
    { schema: schemaOf('Metrics in the format of Prometheus') },
    async (_req, reply) => {
      void reply.type(options.registry.contentType)
      return await (options.metricsText?.() ?? options.registry.metrics())
    },
  )
}

function schemaOf(summary: string): { readonly tags: string[]; readonly summary: string } {
  return { tags: ['health'], summary }
}
