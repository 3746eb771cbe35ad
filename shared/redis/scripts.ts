/**
 * The Lua scripts: where their texts are, what their keys and arguments mean, and how their replies are read.
 *
 * No client may fall back to EVAL: only the sync daemon loads scripts, so that a Redis that restarted answers
 * NOSCRIPT until its daemon has put the region's state right.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AssertionError, assert } from '../core/assert.ts'
import { ALGORITHMS } from '../core/policy.ts'
import { ALGORITHM_CODES, ESTIMATE_CODE, STOCK_CODE } from './layout.ts'
import { onNodeOf, type RegionRedis } from './region-redis.ts'

/** Why a script changed nothing. */
export type Refusal =
  | 'stale'
  | 'not-served'
  | 'other-server'
  | 'bad-input'
  | 'fenced'
  | 'other-time'

const REFUSALS: ReadonlyMap<unknown, Refusal> = new Map<unknown, Refusal>([
  [1, 'stale'],
  [2, 'not-served'],
  [3, 'other-server'],
  [4, 'bad-input'],
  [5, 'fenced'],
  [6, 'other-time'],
])

/**
 * One Lua file. A key or argument whose name ends in `...` stands for any number of them.
 *
 * `loader`: enforcers' scripts are loaded with `serve`, under a replication id written into their text; the
 * daemon's are loaded with `open` and carry it as an argument.
 */
export interface ScriptDefinition {
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly loader: 'open' | 'serve'
  /** The files put in front. */
  readonly includes: readonly string[]
}

/** Stands for every algorithm's file. */
const ALGORITHM_FILES = 'algorithms'
const PRELUDE = ['_prelude']
const COUNTERS = ['_prelude', '_totals', ALGORITHM_FILES, '_counters']

export const SCRIPTS = {
  check: {
    keys: ['meta', 'hot', 'usage', 'counters...'],
    args: ['version', 'limits', 'checks'],
    loader: 'serve',
    includes: COUNTERS,
  },
  'check-usual': {
    keys: ['hot', 'usage', 'metasAndCounters...'],
    args: ['version', 'metas', 'limits', 'runs', 'metaOf', 'totals...'],
    loader: 'serve',
    includes: ['_prelude', '_totals'],
  },
  'give-back': {
    keys: ['meta', 'usage', 'counters...'],
    args: ['version', 'limits', 'returns'],
    loader: 'serve',
    includes: COUNTERS,
  },
  release: {
    keys: ['meta', 'counters...'],
    args: ['version', 'limits', 'releases'],
    loader: 'serve',
    includes: COUNTERS,
  },
  lease: {
    keys: ['meta', 'hot', 'usage', 'counter', 'lease'],
    args: ['version', 'limit', 'tokens'],
    loader: 'serve',
    includes: COUNTERS,
  },
  'return-lease': {
    keys: ['meta', 'usage', 'counter', 'lease'],
    args: ['version', 'limit', 'tokens'],
    loader: 'serve',
    includes: COUNTERS,
  },
  'note-denials': {
    keys: ['meta', 'hot', 'usage', 'counters...'],
    args: ['version', 'limits', 'denials'],
    loader: 'serve',
    includes: COUNTERS,
  },
  'claim-leadership': { keys: ['leader'], args: ['holder', 'ttlMs'], loader: 'open', includes: [] },
  'release-leadership': { keys: ['leader'], args: ['holder'], loader: 'open', includes: [] },
  'raise-fence': { keys: ['fence'], args: ['known'], loader: 'open', includes: [] },
  'fence-group': { keys: ['meta'], args: ['fence'], loader: 'open', includes: PRELUDE },
  'begin-group': {
    keys: ['meta', 'ledger'],
    args: ['fence', 'replicationId', 'incarnation', 'levels', 'recovering'],
    loader: 'open',
    includes: PRELUDE,
  },
  'set-meta': {
    keys: ['meta'],
    args: ['fence', 'replicationId', 'recovering', 'serving', 'policyVersion'],
    loader: 'open',
    includes: PRELUDE,
  },
  'write-region': {
    keys: ['fence', 'hash'],
    args: ['fence', 'replicationId', 'others', 'values...'],
    loader: 'open',
    includes: PRELUDE,
  },
  'write-policies': {
    keys: ['fence', 'region', 'plane', 'policies', 'versions'],
    args: [
      'fence',
      'replicationId',
      'version',
      'regionFields',
      'planeSet',
      'planeRemoved',
      'policiesSet',
      'policiesRemoved',
      'values...',
    ],
    loader: 'open',
    includes: PRELUDE,
  },
  'write-shares': {
    keys: ['meta', 'ledger', 'counters...'],
    args: ['fence', 'replicationId', 'limits', 'writes', 'rows...'],
    loader: 'open',
    includes: COUNTERS,
  },
  'exchange-counts': {
    keys: ['meta', 'counters...'],
    args: ['fence', 'replicationId', 'limits', 'exchanges'],
    loader: 'open',
    includes: COUNTERS,
  },
  'add-stock': {
    keys: ['meta', 'counters...'],
    args: ['fence', 'replicationId', 'limits', 'allotments'],
    loader: 'open',
    includes: COUNTERS,
  },
  collect: {
    keys: ['meta', 'hot', 'usage', 'counters...'],
    args: ['fence', 'replicationId', 'noticedMax', 'fields...'],
    loader: 'open',
    includes: COUNTERS,
  },
} as const satisfies Record<string, ScriptDefinition>

export type ScriptName = keyof typeof SCRIPTS

/** Text of each script, without what depends on the server that loads it. */
export type ScriptTexts = Readonly<Record<ScriptName, string>>

/** Reads every script from the package's `lua` folder. */
export function readScripts(): ScriptTexts {
  const folder = join(packageRoot(dirname(fileURLToPath(import.meta.url))), 'lua')
  const readFile = (name: string): string => readFileSync(join(folder, `${name}.lua`), 'utf8')
  const algorithms = algorithmRegistry(readFile)
  const read = (name: string): string => (name === ALGORITHM_FILES ? algorithms : readFile(name))
  const texts = Object.entries(SCRIPTS).map(([name, { includes }]) => [
    name,
    [...includes, name].map(read).join('\n'),
  ])
  return Object.fromEntries(texts) as ScriptTexts
}

/**
 * Every algorithm by its code, as Lua: `_token-bucket.lua` and so on, each the body of a function. A script call
 * runs only the files of the algorithms that it meets, so that another algorithm costs the others nothing.
 */
function algorithmRegistry(readFile: (name: string) => string): string {
  const files: (readonly [code: number, name: string])[] = ALGORITHMS.map((algorithm) => [
    ALGORITHM_CODES[algorithm],
    `_${algorithm.replaceAll('_', '-')}`,
  ])
  files.push([STOCK_CODE, '_stock'], [ESTIMATE_CODE, '_estimate'])
  const builders = files.map(([code, name]) => `[${code}] = function()\n${readFile(name)}end,`)
  return `local rules_of
local RULE_BUILDERS = {\n${builders.join('\n')}\n}
local rules_by_code = {}
function rules_of(code)
  local rules = rules_by_code[code]
  if not rules then
    rules = RULE_BUILDERS[code]()
    rules_by_code[code] = rules
  end
  return rules
end`
}

/**
 * The text that is loaded: a new one for each server and fence, so that an old SHA never finds a new script. Of a
 * cluster `replicationId` is all of its masters', separated by commas: a slot may move from one to another.
 */
export function textFor(text: string, server: { replicationId: string; fence: number }): string {
  assert(
    /^[0-9a-f]{40}(,[0-9a-f]{40})*$/.test(server.replicationId),
    'a replication id is 40 hexadecimal digits',
  )
  const { replicationId, fence } = server
  return `-- loaded under fence ${fence}\nlocal SERVER_ID = '${replicationId}'\n${text}`
}

/** Runs a loaded script; its reply's strings arrive as bytes. Rejects as ioredis does. */
export function runScript(
  redis: RegionRedis,
  sha: string,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
): Promise<unknown> {
  return onNodeOf(redis, keys[0] ?? '', (node) =>
    node.callBuffer('EVALSHA', sha, keys.length, ...keys, ...args),
  )
}

/** The refusal that a reply means, or null for a result. */
export function refusalOf(reply: unknown): Refusal | null {
  return REFUSALS.get(reply) ?? null
}

/** A reply of bytes; anything else is a bug. */
export function bytesOf(reply: unknown): Buffer {
  if (reply instanceof Buffer) return reply
  throw new AssertionError('a script answered with something else than bytes')
}

/** From source and from dist alike. */
function packageRoot(from: string): string {
  const file = join(from, 'package.json')
  if (existsSync(file) && readFileSync(file, 'utf8').includes('"name": "quotaplane"')) return from
  const parent = dirname(from)
  assert(parent !== from, 'the code runs inside the quotaplane package')
  return packageRoot(parent)
}
