import { stringify } from 'yaml'
import { fieldChanges } from '../../../shared/core/field-diff.ts'
import { unifiedDiff } from '../../../shared/core/line-diff.ts'
import type { DocumentStates } from '../../../shared/postgres/revisions.ts'
import type { DocumentDiff } from '../../../shared/protocol/revisions.ts'

/** What became of a document, for people and for programs. */
export function documentDiffOf(states: DocumentStates): DocumentDiff {
  const lines = unifiedDiff(linesOf(states.before), linesOf(states.after))
  return { ...fieldDiffOf(states), text: lines.length === 0 ? '' : textOf(states, lines) }
}

/** The same with a line for each field that differs in place of the document's own: that takes a hundredth of the time. */
export function shortDiffOf(states: DocumentStates): DocumentDiff {
  const diff = fieldDiffOf(states)
  const lines = diff.fields.flatMap(({ field, before, after }) => [
    ...(before === undefined ? [] : [`-${field}: ${JSON.stringify(before)}`]),
    ...(after === undefined ? [] : [`+${field}: ${JSON.stringify(after)}`]),
  ])
  const isSame = diff.change === 'changed' && lines.length === 0
  return { ...diff, text: isSame ? '' : textOf(states, lines) }
}

function fieldDiffOf({ kind, id, before, after }: DocumentStates): Omit<DocumentDiff, 'text'> {
  return {
    kind,
    id,
    change: before === null ? 'added' : after === null ? 'removed' : 'changed',
    fields: before === null || after === null ? [] : [...fieldChanges(before, after)],
  }
}

function textOf({ kind, id, before, after }: DocumentStates, lines: readonly string[]): string {
  const title = `${kind} ${id}`
  const header = [
    `--- ${before === null ? '/dev/null' : title}`,
    `+++ ${after === null ? '/dev/null' : title}`,
  ]
  return `${[...header, ...lines].join('\n')}\n`
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
