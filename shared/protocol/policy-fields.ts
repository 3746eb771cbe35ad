/** Fields that policy documents are made of. Each message says what is wrong; how to mend it is in the fixes. */
import { z } from 'zod'
import { REGION_PATTERN } from './subjects.ts'

/** What a policy, limit or region may be called: safe in URLs, subjects, labels and header fields. */
export const NAME_PATTERN = REGION_PATTERN

/** How to mend the name of a policy, limit or region. */
export const NAME_FIX =
  'use lower-case letters, digits and hyphens, at most 63, not starting with a hyphen, and not constructor'

/** What a domain may be called. Gateways send it with each check, and those of others have names of their own. */
export const DOMAIN_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

export const DOMAIN_FIX =
  'use letters, digits, dots, underscores and hyphens, at most 63, starting with a letter or digit'

export const nameSchema = z
  .string({ error: describeType('a name') })
  .regex(NAME_PATTERN, { error: (issue) => `"${shortened(issue.input)}" is not a usable name` })

export const domainSchema = z
  .string({ error: describeType('a name') })
  .regex(DOMAIN_PATTERN, { error: (issue) => `"${shortened(issue.input)}" is not a usable name` })

/** Text of at most `bytesMax` bytes of UTF-8. */
export const text = (bytesMax: number) =>
  z
    .string({ error: describeType('a string') })
    .refine((value) => Buffer.byteLength(value) <= bytesMax, {
      error: (issue) =>
        `is ${Buffer.byteLength(String(issue.input))} bytes, and at most ${bytesMax} are allowed`,
    })
    // Both would be changed on their way through Postgres or UTF-8, and then match nothing.
    .refine((value) => !/\0|\p{Surrogate}/u.test(value), {
      error: 'must be well-formed Unicode without NUL characters',
    })

export const nonEmptyText = (bytesMax: number) =>
  text(bytesMax).refine((value) => value !== '', { error: 'must not be empty' })

export const whole = (min: number, max: number) => {
  const error = (issue: { input?: unknown }): string =>
    issue.input === undefined
      ? 'is missing'
      : `must be a whole number from ${min} to ${max}, not ${shortened(JSON.stringify(issue.input))}`
  return z.number({ error }).int({ error }).min(min, { error }).max(max, { error })
}

export const flag = () => z.boolean({ error: describeType('true or false') })

/** One of a few words, the refusal naming what was given. */
export const choice = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, {
    error: (issue) =>
      issue.input === undefined
        ? 'is missing'
        : `${shortened(JSON.stringify(issue.input))} is not known`,
  })

export function describeType(expected: string): (issue: { input?: unknown }) => string {
  return (issue) => {
    if (issue.input === undefined) return 'is missing'
    return `must be ${expected}, not ${shortened(JSON.stringify(issue.input))}`
  }
}

/** Input repeated in a message is cut, since it may be as long as a body. */
export function shortened(input: unknown): string {
  const shown = String(input)
  return shown.length <= 60 ? shown : `${shown.slice(0, 60)}…`
}

/** `"a", "b" or "c"`, for fixes. */
export function quoted(words: readonly string[]): string {
  const all = words.map((word) => `"${word}"`)
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} or ${all.at(-1)}`
}
