/** YAML of another system's configuration, each part with the line and the field where it stands. */
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
} from 'yaml'

export interface Place {
  readonly line: number
  /** `descriptors[0].key`; empty for the whole document. */
  readonly field: string
}

/** Something wrong in a file, or not taken over from it. */
export interface Finding extends Place {
  readonly message: string
}

export type LocatedNode = Place &
  (
    | { readonly kind: 'map'; readonly entries: readonly LocatedEntry[] }
    | { readonly kind: 'list'; readonly items: readonly LocatedNode[] }
    /** `text` is what the file says; `value` what YAML makes of it. */
    | { readonly kind: 'scalar'; readonly value: unknown; readonly text: string }
  )

export interface LocatedEntry {
  readonly name: LocatedNode
  readonly node: LocatedNode
}

/** Parts of one document. Aliases are written out, so a short file could mean an endless one. */
const NODES_MAX = 1_000_000

/** YAML 1.1 is what the Go services read: there `yes` is true, and 010 is 8. */
export type YamlVersion = '1.1' | '1.2'

export interface LocatedDocuments {
  /** Null where a document holds nothing. */
  readonly roots: readonly (LocatedNode | null)[]
  readonly problems: readonly Finding[]
}

export function parseLocated(text: string, version: YamlVersion): LocatedDocuments {
  const lines = new LineCounter()
  const parsed = parseAllDocuments(text, { lineCounter: lines, version, uniqueKeys: true })
  const documents = Array.isArray(parsed) ? parsed : []
  const problems = documents.flatMap((document) =>
    document.errors.map((error) => ({
      line: lines.linePos(error.pos[0]).line,
      field: '',
      message: error.message.split('\n')[0] ?? '',
    })),
  )
  if (problems.length > 0) return { roots: [], problems }
  const roots = documents.map((document) => {
    if (document.contents === null) return null
    return new Reader(document, lines).read(document.contents, '', 1)
  })
  return { roots, problems: [] }
}

class Reader {
  readonly #document: Document.Parsed
  readonly #lines: LineCounter
  #left = NODES_MAX

  constructor(document: Document.Parsed, lines: LineCounter) {
    this.#document = document
    this.#lines = lines
  }

  read(node: unknown, field: string, lineBefore: number): LocatedNode {
    if (this.#left-- <= 0) throw new RangeError('its aliases make it too large')
    if (isAlias(node)) {
      return this.read(node.resolve(this.#document), field, lineBefore)
    }
    const line = this.#lineOf(node) ?? lineBefore
    const place = { line, field }
    if (isMap(node)) return { ...place, kind: 'map', entries: this.#entries(node, place) }
    if (isSeq(node)) {
      const items = node.items.map((item, index) => this.read(item, `${field}[${index}]`, line))
      return { ...place, kind: 'list', items }
    }
    if (!isScalar(node)) return { ...place, kind: 'scalar', value: null, text: '' }
    return { ...place, kind: 'scalar', value: node.value, text: textOf(node) }
  }

  #entries(node: { readonly items: readonly unknown[] }, { line, field }: Place): LocatedEntry[] {
    return (node.items as readonly { readonly key: unknown; readonly value: unknown }[]).flatMap(
      ({ key, value }) => {
        const name = this.read(key, field, line)
        const said = name.kind === 'scalar' ? name.text : '?'
        const path = field === '' ? said : `${field}.${said}`
        const read = this.read(value, path, name.line)
        // A merge key stands for the entries of what it names.
        if (said === '<<' && read.kind === 'map') return [...read.entries]
        // What has no line of its own, such as nothing, stands where its name does.
        return [{ name: { ...name, field: path }, node: { ...read, line: name.line, field: path } }]
      },
    )
  }

  #lineOf(node: unknown): number | null {
    const range =
      typeof node === 'object' && node !== null && 'range' in node && Array.isArray(node.range)
        ? node.range
        : null
    return range === null ? null : this.#lines.linePos(Number(range[0])).line
  }
}

/** A plain scalar as it is written, whatever type YAML gives it: `value: 007` names 007. */
function textOf(node: {
  readonly value: unknown
  readonly source?: string
  readonly type?: string
}): string {
  if (typeof node.value === 'string') return node.value
  return node.source ?? (node.value === null ? '' : String(node.value))
}

/** A value of a map by its name; null where it is missing. */
export function entryOf(node: LocatedNode, name: string): LocatedNode | null {
  if (node.kind !== 'map') return null
  return (
    node.entries.find((one) => one.name.kind === 'scalar' && one.name.text === name)?.node ?? null
  )
}
