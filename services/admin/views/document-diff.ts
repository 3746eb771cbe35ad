import { stringify } from 'yaml'
import { fieldChanges } from '../../../shared/core/field-diff.ts'
import { unifiedDiff } from '../../../shared/core/line-diff.ts'
import type { DocumentStates } from '../../../shared/postgres/revisions.ts'
import type { DocumentDiff } from '../../../shared/protocol/revisions.ts'

/** What became of a document, for people and for programs. */
export function documentDiffOf({ kind, id, before, after }: DocumentStates): DocumentDiff {
  const title = `${kind} ${id}`
  const header = [
    `--- ${before === null ? '/dev/null' : title}`,
    `+++ ${after === null ? '/dev/null' : title}`,
  ]
  const lines = unifiedDiff(linesOf(before), linesOf(after))
  return {
    kind,
    id,
    change: before === null ? 'added' : after === null ? 'removed' : 'changed',
    fields: before === null || after === null ? [] : [...fieldChanges(before, after)],
    text: lines.length === 0 ? '' : `${[...header, ...lines].join('\n')}\n`,
  }
}

function linesOf(document: unknown): readonly string[] {
  return document === null ? [] : stringify(sorted(document)).trimEnd().split('\n')
}

/** As a person writes it, whatever order Postgres gives: what names a thing first, then by name. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => rankOf(one) - rankOf(other) || (one < other ? -1 : 1))
      .map(([name, part]) => [name, sorted(part)]),
  )
}

const FIRST = ['domain', 'name', 'value', 'description', 'match', 'algorithm', 'capacity']

function rankOf(field: string): number {
  const at = FIRST.indexOf(field)
  return at === -1 ? FIRST.length : at
}
