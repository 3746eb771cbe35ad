import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Document, isNode, LineCounter, parseAllDocuments } from 'yaml'
import type { InputProblem } from '../../shared/errors.ts'
import {
  APPLY_FIXES,
  type ApplyDocument,
  applyDocumentSchema,
} from '../../shared/protocol/apply.ts'
import {
  DOMAIN_FIXES,
  type DomainDocument,
  domainDocumentSchema,
} from '../../shared/protocol/domains.ts'
import { plainWords } from '../../shared/protocol/plain-words.ts'
import { POLICY_FIXES } from '../../shared/protocol/policy.ts'
import { problemsOf, UNKNOWN_FIELD } from '../../shared/protocol/zod-problems.ts'
import { suggestion } from '../../shared/runtime/similar.ts'
import { describeField } from './admin-client.ts'
import { CliError } from './errors.ts'
import type { Io } from './io.ts'

/** Larger files are refused: a policy is a few hundred bytes, and a plane holds thousands at most. */
const FILE_CHARS_MAX = 16 * 1024 * 1024

const FIXES = { ...POLICY_FIXES, ...APPLY_FIXES }

/** Problems of one file that are shown; the rest is counted. */
const PROBLEMS_MAX = 20

/** One document of a file, and where it stands. */
export interface Filed<T> {
  readonly document: T
  /** `file:line`, for messages. */
  readonly where: string
  /** `file:line` of one of its fields. */
  readonly locate: (field: string) => string
}
export type FiledPolicy = Filed<ApplyDocument>

/** What files hold: policies, and of `kind: domain` what is said of domains. */
export interface FiledDocuments {
  readonly policies: readonly FiledPolicy[]
  readonly domains: readonly Filed<DomainDocument>[]
}

const POLICY_FILE = /\.(ya?ml|json)$/

/** Reads the documents of files and of folders, whose files of YAML and JSON are read with those below. */
export async function readFiles(paths: readonly string[], io: Io): Promise<FiledDocuments> {
  const files = (await Promise.all(paths.map((path) => filesAt(path)))).flat()
  if (files.length === 0)
    throw new CliError(`${paths.join(', ')} holds no .yaml, .yml or .json file`)
  const read: FiledDocuments[] = []
  for (const file of new Set(files)) read.push(await readDocuments(file, io))
  return withoutTwins({
    policies: read.flatMap(({ policies }) => policies),
    domains: read.flatMap(({ domains }) => domains),
  })
}

async function filesAt(path: string): Promise<readonly string[]> {
  if (path === '-') return [path]
  const found = await stat(path).catch((err: unknown) => {
    throw new CliError(`cannot read ${path}: ${err instanceof Error ? err.message : err}`)
  })
  if (!found.isDirectory()) return [path]
  const entries = await readdir(path, { recursive: true })
  return entries
    .filter((entry) => POLICY_FILE.test(entry))
    .sort()
    .map((entry) => join(path, entry))
}

/** The policies of a YAML or JSON file (`-`: standard input), at least one; read as `readDocuments` does. */
export async function readPolicies(file: string, io: Io): Promise<readonly FiledPolicy[]> {
  const { policies } = await readDocuments(file, io)
  if (policies.length === 0) throw new CliError(`${shownName(file)} holds no policy`)
  return policies
}

/**
 * Reads a YAML or JSON file (`-`: standard input), which may hold several documents.
 *
 * Everything wrong in the file is told at once, with file, document, line, field and fix; nothing is returned
 * then, so that half a file is never applied.
 */
export async function readDocuments(file: string, io: Io): Promise<FiledDocuments> {
  const text = await readText(file, io)
  if (text.length > FILE_CHARS_MAX)
    throw new CliError(`${shownName(file)} is too large for policies`)
  const { documents, problems } = parseDocuments(text, shownName(file))
  if (problems.length > 0) throw new CliError(describeProblems(problems))
  if (documents.length === 0) throw new CliError(`${shownName(file)} holds no policy`)
  return withoutTwins({
    policies: documents.flatMap((one) => (one.kind === 'policy' ? [one.filed] : [])),
    domains: documents.flatMap((one) => (one.kind === 'domain' ? [one.filed] : [])),
  })
}

function shownName(file: string): string {
  return file === '-' ? 'standard input' : file
}

/** A document with what it is. */
type Parsed =
  | { readonly kind: 'policy'; readonly document: ApplyDocument }
  | { readonly kind: 'domain'; readonly document: DomainDocument }
type FiledOne =
  | { readonly kind: 'policy'; readonly filed: FiledPolicy }
  | { readonly kind: 'domain'; readonly filed: Filed<DomainDocument> }

function parseDocuments(
  text: string,
  shownFile: string,
): { documents: readonly FiledOne[]; problems: readonly string[] } {
  const lines = new LineCounter()
  const parsed = parseAllDocuments(text, { lineCounter: lines })
  const all = Array.isArray(parsed) ? parsed : []
  const documents: FiledOne[] = []
  const problems: string[] = []
  for (const [index, document] of all.entries()) {
    if (document.errors.length === 0 && document.toJS() === null) continue // Between two `---`.
    const place = all.length > 1 ? ` (document ${index + 1})` : ''
    const { found, line, problems: wrong } = parseDocument(document, lines)
    if (found !== null) {
      const where = `${shownFile}:${line}`
      const locate = (field: string): string =>
        `${shownFile}:${lines.linePos(offsetOf(document, pathOf(field))).line}`
      documents.push(filedAt(found, { where, locate }))
    }
    problems.push(
      ...wrong.map((problem) => `${shownFile}:${problem.line}${place}: ${problem.text}`),
    )
  }
  return { documents, problems }
}

function filedAt(found: Parsed, at: Omit<Filed<unknown>, 'document'>): FiledOne {
  const { kind, document } = found
  return kind === 'domain'
    ? { kind, filed: { ...at, document } }
    : { kind, filed: { ...at, document } }
}

interface Found {
  readonly found: Parsed | null
  readonly line: number
  readonly problems: readonly { readonly line: number; readonly text: string }[]
}

function parseDocument(document: Document.Parsed, lines: LineCounter): Found {
  const lineAt = (offset: number): number => lines.linePos(offset).line
  const line = lineAt(document.contents?.range?.[0] ?? 0)
  if (document.errors.length > 0) {
    const problems = document.errors.map((error) => ({
      line: lineAt(error.pos[0]),
      text: error.message.split('\n')[0] ?? '',
    }))
    return { found: null, line, problems }
  }
  const { found, problems: wrong } = parseValue(document.toJS())
  const problems = wrong.map((problem) => ({
    line: lineAt(offsetOf(document, pathOf(problem.field))),
    text: `${describeField(problem)}${spellingOf(problem)}`,
  }))
  return { found, line, problems }
}

/** A document without a kind is a policy, as files were before there were kinds. */
function parseValue(value: unknown): {
  readonly found: Parsed | null
  readonly problems: readonly InputProblem[]
} {
  const { kind = 'policy', ...rest } = isRecord(value) ? value : {}
  const said = isRecord(value) ? rest : value
  if (kind === 'policy') {
    const { data, error } = applyDocumentSchema.safeParse(said, { error: plainWords })
    return data === undefined
      ? { found: null, problems: problemsOf(error, FIXES) }
      : { found: { kind, document: data }, problems: [] }
  }
  if (kind === 'domain') {
    const { data, error } = domainDocumentSchema.safeParse(said, { error: plainWords })
    const fixes = { ...FIXES, ...DOMAIN_FIXES }
    return data === undefined
      ? { found: null, problems: problemsOf(error, fixes) }
      : { found: { kind, document: data }, problems: [] }
  }
  const message = `${JSON.stringify(kind)} is no kind of document`
  const fix = 'give policy or domain, or leave it out for a policy'
  return { found: null, problems: [{ field: 'kind', message, fix }] }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The field that a misspelt one most likely stands for. */
function spellingOf({
  field,
  message,
}: {
  readonly field: string
  readonly message: string
}): string {
  if (message !== UNKNOWN_FIELD) return ''
  return suggestion(String(pathOf(field).at(-1) ?? ''), Object.keys(POLICY_FIXES))
}

/** `limits[0].split` as the steps that lead there. */
function pathOf(field: string): readonly (string | number)[] {
  const steps = field.matchAll(/\[(\d+)\]|([^.[\]]+)/g)
  return [...steps].map(([, index, name = '']) => (index === undefined ? name : Number(index)))
}

/** Where the field stands, or the nearest thing around it when it is missing. */
function offsetOf(document: Document.Parsed, path: readonly (string | number)[]): number {
  for (let length = path.length; length > 0; length--) {
    const node: unknown = document.getIn(path.slice(0, length), true)
    if (isNode(node) && node.range) return node.range[0]
  }
  return document.contents?.range?.[0] ?? 0
}

function withoutTwins(documents: FiledDocuments): FiledDocuments {
  refuseTwins(documents.policies, ({ domain, name }) => `${domain}/${name}`)
  refuseTwins(documents.domains, ({ domain }) => `the domain ${domain}`)
  return documents
}

function refuseTwins<T>(documents: readonly Filed<T>[], nameOf: (document: T) => string): void {
  const seen = new Map<string, string>()
  for (const { document, where } of documents) {
    const id = nameOf(document)
    const first = seen.get(id)
    if (first !== undefined) throw new CliError(`${where}: ${id} is also at ${first}; keep one`)
    seen.set(id, where)
  }
}

function describeProblems(problems: readonly string[]): string {
  const more = problems.length - PROBLEMS_MAX
  const shown = problems.slice(0, PROBLEMS_MAX)
  return [...shown, ...(more > 0 ? [`and ${more} more`] : []), 'Nothing was applied.'].join('\n')
}

async function readText(file: string, io: Io): Promise<string> {
  if (file === '-') return await io.readStdin()
  try {
    return await readFile(file, 'utf8')
  } catch (err) {
    throw new CliError(`cannot read ${file}: ${err instanceof Error ? err.message : err}`)
  }
}
