/**
 * One change of the plane: everything that a caller does in one transaction, and one revision in its history.
 *
 * A change of several policies gives each a number of its own, since regions page through changes by number. The
 * revision is the last of them, and nobody has seen the others: all are committed at once.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { assert } from '../core/assert.ts'
import type { AuditChange, ChangeContext } from './audit.ts'
import { type HistoryRow, recordHistory } from './history-rows.ts'
import { type Db, inTransaction, lockPlane, type PlaneStamp, readStamp, type Trx } from './plane.ts'
import type { PolicyKey } from './policies.ts'
import { findPolicies, nameOf } from './policy-batch.ts'
import type { StoredPolicy } from './policy-rows.ts'

/** A document that a change made, replaced or removed. */
export interface DocumentChange {
  /** `policy`, `override` and `domain` can be brought back by a rollback; any other kind is only told. */
  readonly kind: string
  readonly id: string
  readonly before: unknown
  readonly after: unknown
}

export interface PlaneRecord extends AuditChange {
  /** What became of single documents; absent: of the object of the change alone. */
  readonly documents?: readonly DocumentChange[]
}

interface RecordedChange extends DocumentChange {
  readonly action: string
}

/** Rows of one statement: with their documents a megabyte, so that a large change keeps both sides at work. */
const ROWS_PER_INSERT = 2_500

/** Fewer policies than these are read of Postgres as soon as they are looked for. */
const REMEMBERED_MIN = 50

/** Policies that were read before. */
export interface PolicyMemory {
  /** All policies by name, in the order of domain and name; null when what is known is of another state of the plane. */
  policiesAt(stamp: PlaneStamp): ReadonlyMap<string, StoredPolicy> | null
}

/**
 * By name, those that there are: out of `memory` when it is of the plane's state that `db` sees, or else of Postgres.
 * What is only noted of a policy while its base moves has no revision, so such policies are read.
 */
export async function recallPolicies(
  db: Db,
  memory: PolicyMemory | undefined,
  keys: readonly PolicyKey[],
): Promise<ReadonlyMap<string, StoredPolicy>> {
  if (memory === undefined || keys.length < REMEMBERED_MIN) return await findPolicies(db, keys)
  const all = memory.policiesAt(await readStamp(db))
  const found = new Map<string, StoredPolicy>()
  for (const key of keys) {
    const policy = all?.get(nameOf(key))
    if (policy !== undefined) found.set(nameOf(key), policy)
  }
  const isMoving = [...found.values()].some(({ limits }) =>
    limits.some(({ previousBase }) => previousBase !== null),
  )
  return all === null || isMoving ? await findPolicies(db, keys) : found
}

/** What a change is a part of. */
export interface ChangeScope {
  readonly trx: Trx
  /** Changes of the plane that were carried out in it. */
  readonly finished: PlaneChange[]
  /** It is undone once it was looked at, so its history is not written. */
  readonly isPlanned?: boolean
  /** Collects changes that raise no revision, such as those of tokens, for whoever looks at a plan. */
  readonly besides?: DocumentChange[]
  /** What large changes need not read. */
  readonly memory?: PolicyMemory
}

export interface PlaneContext extends ChangeContext {
  /** Absent: the change stands alone. */
  readonly scope?: ChangeScope
}

/** Carries out `work` as one change, wholly or not at all: in its scope, or else in a transaction of its own. */
export async function changePlane<T>(
  db: Db,
  context: PlaneContext,
  work: (plane: PlaneChange) => Promise<T>,
): Promise<T> {
  return await inTransaction(context.scope?.trx ?? db, async (trx) => {
    const plane = await PlaneChange.begin(trx, context)
    const result = await work(plane)
    await plane.finish()
    context.scope?.finished.push(plane)
    return result
  })
}

export class PlaneChange {
  readonly trx: Trx
  readonly context: ChangeContext
  readonly #before: number
  #revision: number
  readonly #rows: HistoryRow[] = []
  readonly #changes: RecordedChange[] = []
  readonly #isPlanned: boolean
  readonly #memory: PolicyMemory | undefined

  private constructor(trx: Trx, context: PlaneContext, revision: number) {
    this.trx = trx
    this.context = context
    this.#before = revision
    this.#revision = revision
    this.#isPlanned = context.scope?.isPlanned === true
    this.#memory = context.scope?.memory
  }

  /** Makes every other change wait until the transaction ends: what is read from here on stays true until then. */
  static async begin(trx: Trx, context: PlaneContext): Promise<PlaneChange> {
    return new PlaneChange(trx, context, await lockPlane(trx))
  }

  /** By name, as they are in this change; those that there are. */
  async findPolicies(keys: readonly PolicyKey[]): Promise<ReadonlyMap<string, StoredPolicy>> {
    // What it wrote itself nobody remembers.
    return await recallPolicies(this.trx, this.isRaised ? undefined : this.#memory, keys)
  }

  /** The next revision, which is this change's alone. Without a commit it was never given, so there are no gaps. */
  takeRevision(): number {
    this.#revision++
    return this.#revision
  }

  /** Enters what was done in the audit log and in the history of revisions. */
  record({ documents, ...change }: PlaneRecord): void {
    const { action, objectKind: kind, objectId: id, before, after } = change
    const whole = { action, kind, id, before, after }
    if (documents === undefined) {
      // What the log and the history say alike travels to Postgres once.
      this.#rows.push({ ...whole, isAudited: true, position: this.#changes.length })
      this.#changes.push(whole)
      return
    }
    this.#rows.push({ ...whole, isAudited: true, position: null })
    for (const document of documents) {
      const told = { ...document, action }
      this.#rows.push({ ...told, isAudited: false, position: this.#changes.length })
      this.#changes.push(told)
    }
  }

  /** Whether the plane has another revision by it. */
  get isRaised(): boolean {
    return this.#revision > this.#before
  }

  /** Number of the last revision that was taken, or of the plane when none was. */
  get revision(): number {
    return this.#revision
  }

  /** What was recorded so far. */
  get changes(): readonly RecordedChange[] {
    return this.#changes
  }

  /** Writes the revision and all that was recorded, as the last step of the transaction. */
  async finish(): Promise<void> {
    assert(this.isRaised || this.#changes.length === 0, 'what is recorded has a revision')
    if (!this.isRaised) return
    const { actor, reason, requestId: request_id } = this.context
    const number = this.#revision
    await this.trx.updateTable('plane').set({ revision: number }).execute()
    await this.trx
      .insertInto('revisions')
      .values({ number, first: this.#before + 1, actor, reason, request_id })
      .execute()
    if (this.#isPlanned) return
    const { context, trx } = this
    await writePages(this.#rows, (page) =>
      recordHistory(trx, { ...context, revision: number }, page),
    )
  }
}

/** Two pages at a time: Postgres carries out the one while the next is written as JSON. */
async function writePages<T>(
  rows: readonly T[],
  write: (page: readonly T[]) => Promise<void>,
): Promise<void> {
  let earlier = Promise.resolve()
  for (let start = 0; start < rows.length; start += ROWS_PER_INSERT) {
    const next = write(rows.slice(start, start + ROWS_PER_INSERT))
    // Of two that fail the first is told; the transaction is undone all the same.
    next.catch(() => {})
    await turn()
    await earlier
    earlier = next
  }
  await earlier
}
