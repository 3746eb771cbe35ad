import { z } from 'zod'

/** A check may be tried by the usual script, and then go to the one that decides everything. */
export const CALLS_OF_A_CHECK = 2

/** How long an Envoy waits for the rate limit service, of its configuration's text. */
export function rateLimitTimeoutMs(config: string): number {
  const [, filter = ''] = config.split('- name: envoy.filters.http.ratelimit\n')
  const [, seconds] = /^ +timeout: ([\d.]+)s$/m.exec(filter) ?? []
  return z.coerce.number().positive().parse(seconds) * 1_000
}
