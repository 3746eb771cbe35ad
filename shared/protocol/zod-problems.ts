import type { z } from 'zod'
import { type InputProblem, QuotaError } from '../errors.ts'

/** Problems that one answer lists; the rest show once these are mended. Bounds what a hostile body can cost. */
const PROBLEMS_MAX = 20

/** What is said of a field that nothing knows, such as a misspelt one. */
export const UNKNOWN_FIELD = 'is not a field of this object'

/** How to mend each field, by the last name in its path that is known here; `body` stands for the whole. */
export type Fixes = Readonly<Record<string, string>>

/** One problem for each field that `error` complains of; paths read like `limits[0].split`. */
export function problemsOf(error: z.ZodError, fixes: Fixes = {}): readonly InputProblem[] {
  const mistyped = new Set(error.issues.filter(isOfType).map(({ path }) => fieldOf(path)))
  const all = error.issues
    // Of what is of another kind, how long or how large it is does not matter.
    .filter((issue) => isOfType(issue) || !mistyped.has(fieldOf(issue.path)))
    .flatMap((issue) => problemsOfIssue(issue, fixes))
  // A number such as 1e21 breaks two rules that are explained by one sentence.
  const said = new Map(all.map((problem) => [`${problem.field} ${problem.message}`, problem]))
  return [...said.values()].slice(0, PROBLEMS_MAX)
}

function isOfType({ code }: z.core.$ZodIssue): boolean {
  return code === 'invalid_type'
}

/** What a caller is told of input that does not fit its schema. */
export function invalidInput(
  problems: readonly InputProblem[],
  options: { readonly cause?: unknown } = {},
): QuotaError {
  const shown = problems.map((problem) => `${problem.field}: ${problem.message}`).join('; ')
  return new QuotaError('QUOTA_INVALID_INPUT', shown, { ...options, problems })
}

/** A path of names and indexes as one text: `limits[0].split`. */
export function fieldOf(path: readonly PropertyKey[]): string {
  let field = ''
  for (const part of path) {
    if (typeof part === 'number') field += `[${part}]`
    else field += field === '' ? String(part) : `.${String(part)}`
  }
  return field
}

function problemsOfIssue(issue: z.core.$ZodIssue, fixes: Fixes): readonly InputProblem[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      field: fieldOf([...issue.path, key]),
      message: UNKNOWN_FIELD,
      fix: 'remove it or correct its spelling',
    }))
  }
  if (issue.code === 'invalid_key') {
    const message = issue.issues[0]?.message ?? issue.message
    return [problemAt(issue.path, message, fixes)]
  }
  return [problemAt(issue.path, issue.message, fixes)]
}

/** A part without a fix of its own, such as one region's weight, is mended as what holds it. */
function problemAt(path: readonly PropertyKey[], message: string, fixes: Fixes): InputProblem {
  const named = path.length === 0 ? ['body'] : path
  const name = named.findLast((part) => Object.hasOwn(fixes, part))
  const fix = name === undefined ? undefined : fixes[String(name)]
  return { field: fieldOf(named), message, ...(fix !== undefined && { fix }) }
}
