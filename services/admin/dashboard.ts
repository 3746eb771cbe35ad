import { existsSync } from 'node:fs'
import { join } from 'node:path'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'

/**
 * What the page may do: its own scripts and styles, and the API beside it. So a value that an attacker got into a
 * policy cannot run, and no other site can frame the page.
 */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** A year: the names of assets change with their content. */
const ASSET_AGE_S = 31_536_000

/** Serves the dashboard that was built into `folder` at `/`; where it was not built, `/` is not there. */
export async function serveDashboard(app: FastifyInstance, folder: string): Promise<void> {
  if (!existsSync(join(folder, 'index.html'))) return
  await app.register(fastifyStatic, {
    root: folder,
    wildcard: false,
    cacheControl: false,
    preCompressed: true,
    setHeaders(reply, path) {
      const isAsset = path.includes('/assets/')
      reply.header(
        'cache-control',
        isAsset ? `public, max-age=${ASSET_AGE_S}, immutable` : 'no-cache',
      )
      reply.header('content-security-policy', CONTENT_SECURITY_POLICY)
      reply.header('x-content-type-options', 'nosniff')
      reply.header('referrer-policy', 'no-referrer')
      reply.header('cross-origin-opener-policy', 'same-origin')
      reply.header('cross-origin-resource-policy', 'same-origin')
    },
  })
}
