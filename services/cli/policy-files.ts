import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Document, isNode, LineCounter, parseAllDocuments } from 'yaml'
import {
  APPLY_FIXES,
  type ApplyDocument,
  applyDocumentSchema,
} from '../../shared/protocol/apply.ts'
import { POLICY_FIXES } from '../../shared/protocol/policy.ts'
import { problemsOf, UNKNOWN_FIELD } from '../../shared/protocol/zod-problems.ts'
import { describeField } from './admin-client.ts'
import { CliError } from './errors.ts'
import { suggestion } from './import/similar.ts'
import type { Io } from './io.ts'

/** Larger files are refused: a policy is a few hundred bytes, and a plane holds thousands at most. */
const FILE_CHARS_MAX = 16 * 1024 * 1024

const FIXES = { ...POLICY_FIXES, ...APPLY_FIXES }

/** Problems of one file that are shown; the rest is counted. */
const PROBLEMS_MAX = 20

/** One policy of a file, and where it stands. */
export interface FiledPolicy {
  readonly document: ApplyDocument
  /** `file:line`, for messages. */
  readonly where: string
  /** `file:line` of one of its fields. */
  readonly locate: (field: string) => string
}

const POLICY_FILE = /\.(ya?ml|json)$/

/** Reads the policies of files and of folders, whose files of YAML and JSON are read with those below. */
export async function readPolicyFiles(
  paths: readonly string[],
  io: Io,
): Promise<readonly FiledPolicy[]> {
  const files = (await Promise.all(paths.map((path) => filesAt(path)))).flat()
  if (files.length === 0)
    throw new CliError(`${paths.join(', ')} holds no .yaml, .yml or .json file`)
  const policies: FiledPolicy[] = []
  for (const file of new Set(files)) policies.push(...(await readPolicies(file, io)))
  refuseTwins(policies)
  return policies
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

/**
 * Reads the policies of a YAML or JSON file (`-`: standard input), which may hold several documents.
 *
 * Everything wrong in the file is told at once, with file, document, line, field and fix; nothing is returned
 * then, so that half a file is never applied.
 */
export async function readPolicies(file: string, io: Io): Promise<readonly FiledPolicy[]> {
  const shownFile = file === '-' ? 'standard input' : file
  const text = await readText(file, io)
  if (text.length > FILE_CHARS_MAX) throw new CliError(`${shownFile} is too large for policies`)
  const { policies, problems } = parsePolicies(text, shownFile)
  if (problems.length > 0) throw new CliError(describeProblems(problems))
  if (policies.length === 0) throw new CliError(`${shownFile} holds no policy`)
  refuseTwins(policies)
  return policies
}

function parsePolicies(
  text: string,
  shownFile: string,
): { policies: readonly FiledPolicy[]; problems: readonly string[] } {
  const lines = new LineCounter()
  const parsed = parseAllDocuments(text, { lineCounter: lines })
  const documents = Array.isArray(parsed) ? parsed : []
  const policies: FiledPolicy[] = []
  const problems: string[] = []
  for (const [index, document] of documents.entries()) {
    if (document.errors.length === 0 && document.toJS() === null) continue // Between two `---`.
    const place = documents.length > 1 ? ` (document ${index + 1})` : ''
    const { policy, line, problems: found } = parsePolicyDocument(document, lines)
    if (policy !== null) {
      const locate = (field: string): string =>
        `${shownFile}:${lines.linePos(offsetOf(document, pathOf(field))).line}`
      policies.push({ document: policy, where: `${shownFile}:${line}`, locate })
    }
    problems.push(
      ...found.map((problem) => `${shownFile}:${problem.line}${place}: ${problem.text}`),
    )
  }
  return { policies, problems }
}

interface Found {
  readonly policy: ApplyDocument | null
  readonly line: number
  readonly problems: readonly { readonly line: number; readonly text: string }[]
}

function parsePolicyDocument(document: Document.Parsed, lines: LineCounter): Found {
  const lineAt = (offset: number): number => lines.linePos(offset).line
  const line = lineAt(document.contents?.range?.[0] ?? 0)
  if (document.errors.length > 0) {
    const problems = document.errors.map((error) => ({
      line: lineAt(error.pos[0]),
      text: error.message.split('\n')[0] ?? '',
    }))
    return { policy: null, line, problems }
  }
  const result = applyDocumentSchema.safeParse(document.toJS())
  if (result.success) return { policy: result.data, line, problems: [] }
  const problems = problemsOf(result.error, FIXES).map((problem) => ({
    line: lineAt(offsetOf(document, pathOf(problem.field))),
    text: `${describeField(problem)}${spellingOf(problem)}`,
  }))
  return { policy: null, line, problems }
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

function refuseTwins(policies: readonly FiledPolicy[]): void {
  const seen = new Map<string, string>()
  for (const { document, where } of policies) {
    const id = `${document.domain}/${document.name}`
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
