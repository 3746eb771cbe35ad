/**
 * Reads the region's policies for enforcers: what changed since the last reading, in parts.
 *
 * A plane of ten thousand policies is megabytes. Read and parsed in one go they would hold up the checks that wait
 * behind them, and on a busy machine no deadline that still finds a dead Redis would be long enough. So ids come first,
 * and policies by a few hundred; the reading ends once a look at the version says that nothing changed meanwhile.
 */
import type { RegionPolicy } from '../core/policy.ts'
import type { PolicyReader, RegionPolicies } from '../core/ports.ts'
import { QuotaError } from '../errors.ts'
import { REGION_KEYS, type RegionField } from './keys.ts'
import { onNodeOf, type RegionRedis } from './region-redis.ts'
import { parsePolicy } from './region-state.ts'

/** Longest wait for one reply. Enforcers go on with the policies that they have, so this may take its time. */
const READ_DEADLINE_MS = 1_000

/** Policies of one reply: some 200 kB, which are parsed within two milliseconds. */
const POLICIES_PER_READ = 250

/** A plane that changes during as many readings in turn is read again with the next poll. */
const ROUNDS_MAX = 20

const HEAD: readonly RegionField[] = ['version', 'revision']

const FIELDS: readonly RegionField[] = [
  ...HEAD,
  'incarnation',
  'format',
  'versionsSince',
  'versionsAt',
]

type Head = Omit<RegionPolicies, 'policies'>

interface Outline {
  readonly head: Head
  /** Policies that are to be read, or were removed. */
  readonly ids: readonly string[]
}

export function createPolicyReader({ redis }: { readonly redis: RegionRedis }): PolicyReader {
  const onRegion: OnRegion = (what, call) =>
    readWithin(what, () => onNodeOf(redis, REGION_KEYS.region, call))
  return {
    readHead: () =>
      onRegion('read the policy version', async (node) => {
        const [version, revision] = await node.hmget(REGION_KEYS.region, ...HEAD)
        return { version: Number(version ?? 0), revision: Number(revision ?? 0) }
      }),

    async readAll(known = null) {
      const policies = new Map(known?.policies.map((policy) => [policy.id, policy]))
      let outline = known === null ? null : await readOutline(onRegion, known)
      for (let round = 0; round < ROUNDS_MAX; round++) {
        if (outline === null) policies.clear()
        const { head, ids }: Outline = outline ?? (await outlineOfAll(onRegion))
        if (ids.length === 0) return { ...head, policies: [...policies.values()].sort(byId) }
        outline = await readInto(policies, { head, ids }, onRegion)
      }
      const message = 'could not read the policies: they changed all the time'
      throw new QuotaError('QUOTA_STORE_UNAVAILABLE', message)
    },
  }
}

type Node = Parameters<Parameters<typeof onNodeOf>[2]>[0]
type Batch = ReturnType<Node['multi']>
type Texts = readonly (string | null)[]
type OnRegion = <T>(what: string, call: (node: Node) => Promise<T>) => Promise<T>

/** What changed after `base`, with the version that it leads to; null where only reading all of them tells. */
async function readOutline(onRegion: OnRegion, base: Head): Promise<Outline | null> {
  return await onRegion('read what policies changed', async (node) => {
    const replies = await askOutline(node.multi(), base).exec()
    return outlineSince(base, repliesOf(replies))
  })
}

function askOutline(batch: Batch, base: Head): Batch {
  const { region, versions } = REGION_KEYS
  return batch.hmget(region, ...FIELDS).zrangebyscore(versions, `(${base.version}`, '+inf')
}

function outlineSince(base: Head, [fields = [], ids = []]: readonly Texts[]): Outline | null {
  const head = headOf(fields)
  // After a daemon of an earlier version it is not kept what changed.
  const isKept =
    fieldOf(fields, 'versionsAt') === head.version &&
    fieldOf(fields, 'versionsSince') <= base.version
  const isLater = base.incarnation === head.incarnation && base.version <= head.version
  const isTold = isLater && (isKept || base.version === head.version)
  return isTold ? { head, ids: ids.filter((id) => id !== null) } : null
}

async function outlineOfAll(onRegion: OnRegion): Promise<Outline> {
  return await onRegion('read which policies there are', async (node) => {
    const { region, policies } = REGION_KEYS
    const replies = await node
      .multi()
      .hmget(region, ...FIELDS)
      .hkeys(policies)
      .exec()
    const [fields = [], ids = []] = repliesOf(replies)
    return { head: headOf(fields), ids: ids.filter((id) => id !== null) }
  })
}

/**
 * Reads policies by id and takes out those that are gone; gives what changed meanwhile and was not read with the last
 * of them, in one transaction with it: so a policy that changes all the time is read once, and not again and again.
 */
async function readInto(
  policies: Map<number, RegionPolicy>,
  { head, ids }: Outline,
  onRegion: OnRegion,
): Promise<Outline | null> {
  let [part, outline]: [readonly string[], readonly Texts[]] = [[], []]
  for (let start = 0; start < ids.length; start += POLICIES_PER_READ) {
    part = ids.slice(start, start + POLICIES_PER_READ)
    const isLast = start + part.length === ids.length
    const [texts = [], ...rest] = await onRegion('read policies', async (node) => {
      const batch = node.multi().hmget(REGION_KEYS.policies, ...part)
      return repliesOf(await (isLast ? askOutline(batch, head) : batch).exec())
    })
    outline = rest
    for (const [index, id] of part.entries()) {
      const text = texts[index] ?? null
      if (text === null) policies.delete(Number(id))
      else policies.set(Number(id), parsePolicy<RegionPolicy>(text))
    }
  }
  const next = outlineSince(head, outline)
  return next && { head: next.head, ids: next.ids.filter((id) => !part.includes(id)) }
}

function repliesOf(replies: readonly [Error | null, unknown][] | null) {
  return (replies ?? []).map(([err, reply]) => {
    if (err !== null) throw err
    return reply as Texts
  })
}

function headOf(fields: Texts): Head {
  return {
    version: fieldOf(fields, 'version'),
    incarnation: fieldOf(fields, 'incarnation'),
    revision: fieldOf(fields, 'revision'),
    format: fieldOf(fields, 'format', 1),
  }
}

function fieldOf(fields: Texts, name: RegionField, absent = 0): number {
  return Number(fields[FIELDS.indexOf(name)] ?? absent)
}

function byId(one: RegionPolicy, other: RegionPolicy): number {
  return one.id - other.id
}

/** What `call` gives; QUOTA_STORE_UNAVAILABLE, which says `what`, when it fails or takes longer than a reading may. */
export async function readWithin<T>(what: string, call: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no reply in time')), READ_DEADLINE_MS)
  })
  try {
    return await Promise.race([call(), late])
  } catch (cause) {
    throw new QuotaError('QUOTA_STORE_UNAVAILABLE', `could not ${what}`, { cause })
  } finally {
    clearTimeout(timer)
  }
}
