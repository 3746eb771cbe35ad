/**
 * One change of the plane: everything that a caller does in one transaction, and one revision in its history.
 *
 * A change of several policies gives each a number of its own, since regions page through changes by number. The
 * revision is the last of them, and nobody has seen the others: all are committed at once.
 */
import { sql } from 'kysely'
import { assert } from '../core/assert.ts'
import { type AuditChange, type ChangeContext, recordAudits } from './audit.ts'
import { namesOf, rowsOf } from './json-rows.ts'
import { type Db, inTransaction, lockPlane, type Trx } from './plane.ts'

/** A document that a change made, replaced or removed. */
export interface DocumentChange {
  /** `policy` and `override` can be brought back by a rollback; any other kind is only told. */
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

/** Rows of one statement: with their documents some megabytes, and more than a large change has. */
const ROWS_PER_INSERT = 5_000

const CHANGE_COLUMNS = {
  revision: 'bigint',
  position: 'integer',
  action: 'text',
  object_kind: 'text',
  object_id: 'text',
  before: 'jsonb',
  after: 'jsonb',
} as const

/** What a change is a part of. */
export interface ChangeScope {
  readonly trx: Trx
  /** Changes of the plane that were carried out in it. */
  readonly finished: PlaneChange[]
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
  readonly #audits: AuditChange[] = []
  readonly #changes: RecordedChange[] = []

  private constructor(trx: Trx, context: ChangeContext, revision: number) {
    this.trx = trx
    this.context = context
    this.#before = revision
    this.#revision = revision
  }

  /** Makes every other change wait until the transaction ends: what is read from here on stays true until then. */
  static async begin(trx: Trx, context: ChangeContext): Promise<PlaneChange> {
    return new PlaneChange(trx, context, await lockPlane(trx))
  }

  /** The next revision, which is this change's alone. Without a commit it was never given, so there are no gaps. */
  takeRevision(): number {
    this.#revision++
    return this.#revision
  }

  /** Enters what was done in the audit log and in the history of revisions. */
  record({ documents, ...change }: PlaneRecord): void {
    const { action, objectKind: kind, objectId: id, before, after } = change
    this.#audits.push(change)
    const all = documents ?? [{ kind, id, before, after }]
    this.#changes.push(...all.map((document) => ({ ...document, action })))
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
    const rows = this.#changes.map(({ action, kind, id, before, after }, position) => ({
      revision: number,
      position,
      action,
      object_kind: kind,
      object_id: id,
      before,
      after,
    }))
    for (let start = 0; start < rows.length; start += ROWS_PER_INSERT) {
      const page = rows.slice(start, start + ROWS_PER_INSERT)
      await sql`
        insert into revision_changes (${namesOf(CHANGE_COLUMNS)})
        select ${namesOf(CHANGE_COLUMNS)} from ${rowsOf(page, CHANGE_COLUMNS)}`.execute(this.trx)
    }
    for (let start = 0; start < this.#audits.length; start += ROWS_PER_INSERT) {
      const page = this.#audits.slice(start, start + ROWS_PER_INSERT)
      await recordAudits(this.trx, { ...this.context, revision: number }, page)
    }
  }
}
