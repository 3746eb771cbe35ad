import { z } from 'zod'
import { shortened } from '../../../shared/protocol/policy-fields.ts'

const DECIMAL = /^(?:0|[1-9]\d{0,15})$/

/**
 * A whole number of a path or a query, from `min` to `max`, in decimal digits and nothing else.
 *
 * What JavaScript also takes for a number (`0x2`, `+2`, `2.0`, `1e3`, ` 2`, `02`) would give one resource many
 * addresses, and a typing error another's.
 */
export function decimal(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  const range = max === Number.MAX_SAFE_INTEGER ? `${min} on` : `${min} to ${max}`
  const error = ({ input }: { readonly input?: unknown }): string =>
    `must be a whole number from ${range} in decimal digits, not ${shortened(JSON.stringify(input))}`
  return z.preprocess(
    (text) => (typeof text === 'string' && DECIMAL.test(text) ? Number(text) : text),
    z.number({ error }).int({ error }).min(min, { error }).max(max, { error }),
  )
}
