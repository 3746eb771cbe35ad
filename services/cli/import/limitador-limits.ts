/** Reads Limitador's limits file: a list of limits, and of each what descriptors it is about. */

import { suggestion } from '../../../shared/runtime/similar.ts'
import {
  entryOf,
  type Finding,
  type LocatedNode,
  type Place,
  parseLocated,
} from './located-yaml.ts'

export interface Condition {
  readonly key: string
  readonly isEqual: boolean
  readonly value: string
}

export interface LimitadorLimit {
  readonly place: Place
  readonly name: string | null
  readonly namespace: string
  readonly seconds: number
  readonly maxValue: number
  /** Which descriptor of a check it looks at; null where nothing says. */
  readonly descriptor: number | null
  readonly conditions: readonly Condition[]
  readonly variables: readonly string[]
  /** Why it cannot be taken over, by the field; empty when it can. */
  readonly unsupported: readonly Finding[]
}

const FIELDS = ['id', 'name', 'namespace', 'seconds', 'max_value', 'conditions', 'variables']

/** `descriptors[0].key` or `descriptors[0]['key']`; before version 2 also a bare `key`. */
const REFERENCE = String.raw`(?:descriptors\[(\d+)\](?:\.([A-Za-z_][\w.]*)|\[(?:'([^']+)'|"([^"]+)")\])|([A-Za-z_][\w.]*))`
const VARIABLE = new RegExp(`^\\s*${REFERENCE}\\s*$`)
const CONDITION = new RegExp(`^\\s*${REFERENCE}\\s*(==|!=)\\s*(?:'([^']*)'|"([^"]*)")\\s*$`)

export function parseLimitadorLimits(text: string): {
  readonly limits: readonly LimitadorLimit[]
  readonly problems: readonly Finding[]
} {
  const { roots, problems } = parseLocated(text, '1.2')
  if (problems.length > 0) return { limits: [], problems }
  const [root = null] = roots
  if (root === null) return { limits: [], problems: [] }
  if (root.kind !== 'list') {
    const message = 'must be a list of limits'
    return { limits: [], problems: [{ line: root.line, field: root.field, message }] }
  }
  const reader = new LimitsReader()
  const limits = root.items.map((item) => reader.limit(item))
  return { limits, problems: reader.problems }
}

class LimitsReader {
  readonly problems: Finding[] = []

  limit(node: LocatedNode): LimitadorLimit {
    if (node.kind !== 'map') this.#refuse(node, 'must be a limit')
    else this.#checkNames(node)
    const unsupported: Finding[] = []
    const place = { line: node.line, field: node.field }
    const conditions = this.#texts(node, 'conditions').flatMap((one) => {
      const condition = conditionOf(one.text)
      if (condition === null) unsupported.push(strange(one, 'condition'))
      else if (condition.value === '' || condition.value.includes('*')) {
        unsupported.push({ ...strange(one, 'condition'), message: UNUSABLE_VALUE })
      }
      return condition ?? []
    })
    const variables = this.#texts(node, 'variables').flatMap((one) => {
      const variable = variableOf(one.text)
      if (variable === null) unsupported.push(strange(one, 'variable'))
      return variable ?? []
    })
    const indexes = new Set([...conditions, ...variables].map(({ descriptor }) => descriptor))
    if (indexes.size > 1) {
      unsupported.push({ ...place, message: 'is about several descriptors of a check at once' })
    }
    return {
      place,
      name: this.#text(node, 'name', null),
      namespace: this.#text(node, 'namespace', '') ?? '',
      seconds: this.#whole(node, 'seconds', 1),
      maxValue: this.#whole(node, 'max_value', 0),
      descriptor: [...indexes][0] ?? null,
      conditions,
      variables: [...new Set(variables.map(({ key }) => key))],
      unsupported,
    }
  }

  #refuse({ line, field }: Place, message: string): void {
    this.problems.push({ line, field, message })
  }

  #checkNames(node: LocatedNode & { readonly kind: 'map' }): void {
    for (const { name } of node.entries) {
      const said = name.kind === 'scalar' ? name.text : name.kind
      if (!FIELDS.includes(said)) {
        this.#refuse(name, `is not a field of a limit${suggestion(said, FIELDS)}`)
      }
    }
  }

  #text(node: LocatedNode, name: string, fallback: string | null): string | null {
    const found = entryOf(node, name)
    if (found?.kind === 'scalar' && found.value !== null) return found.text
    if (fallback !== null) this.#refuse(fieldOf(node, name), 'is missing')
    return fallback
  }

  #whole(node: LocatedNode, name: string, least: number): number {
    const found = entryOf(node, name)
    const value = found?.kind === 'scalar' ? found.value : null
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least) return value
    const message = found === null ? 'is missing' : `must be a whole number of at least ${least}`
    this.#refuse(fieldOf(node, name), message)
    return least
  }

  #texts(node: LocatedNode, name: string): readonly (Place & { readonly text: string })[] {
    const found = entryOf(node, name)
    if (found?.kind !== 'list') {
      this.#refuse(fieldOf(node, name), found === null ? 'is missing' : 'must be a list')
      return []
    }
    return found.items.flatMap((item) => {
      if (item.kind === 'scalar' && typeof item.value === 'string') return item
      this.#refuse(item, 'must be an expression')
      return []
    })
  }
}

/** Here an empty value is none, and a `*` stands for other characters. */
const UNUSABLE_VALUE = 'compares with a value that is empty or has a *, which no policy can name'

function strange(one: Place & { readonly text: string }, what: string): Finding {
  const message = `is a ${what} of another kind than can be taken over: ${one.text}`
  return { line: one.line, field: one.field, message }
}

function fieldOf(node: LocatedNode, name: string): Place {
  const { line } = entryOf(node, name) ?? node
  return { line, field: node.field === '' ? name : `${node.field}.${name}` }
}

function variableOf(text: string): { readonly key: string; readonly descriptor: number } | null {
  const match = VARIABLE.exec(text)
  return match === null ? null : referenceOf(match)
}

function conditionOf(text: string): (Condition & { readonly descriptor: number }) | null {
  const match = CONDITION.exec(text)
  if (match === null) return null
  const [, , , , , , operator, single, double = ''] = match
  return { ...referenceOf(match), isEqual: operator === '==', value: single ?? double }
}

function referenceOf(match: RegExpExecArray): {
  readonly key: string
  readonly descriptor: number
} {
  const [, index, dotted, single, double, bare = ''] = match
  return { key: dotted ?? single ?? double ?? bare, descriptor: Number(index ?? 0) }
}
