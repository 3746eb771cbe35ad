/** What writes were answered that came with a key, so that a repeated one is not carried out again. */
import { sql } from 'kysely'
import type { Db, Trx } from './plane.ts'

/** How long a key stands for the write that it came with. Longer than any retry of a program, and a night. */
const KEY_HOURS = 24

/** Keys that are kept beyond what the day brings: at some hundred bytes each, tens of megabytes. */
const KEYS_MAX = 100_000

/** Rows that one step forgets: some milliseconds' work. */
const FORGOTTEN_MAX = 5_000

export interface RequestKey {
  readonly actor: string
  readonly key: string
  /** Digest of what is asked. */
  readonly fingerprint: Buffer
}

export interface KeptAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** As it was sent; null for an answer without a body. */
  readonly body: string | null
}

export interface EarlierRequest {
  readonly isSame: boolean
  /** Null: it holds a secret and was not kept. */
  readonly answer: KeptAnswer | null
}

/**
 * Takes a key for the write of this transaction, or gives the write that it stood for before.
 *
 * While another transaction writes with the same key this waits for its end, so that of two at once one writes.
 */
export async function claimKey(trx: Trx, request: RequestKey): Promise<EarlierRequest | null> {
  const { actor, key, fingerprint } = request
  const claimed = await trx
    .insertInto('idempotency_keys')
    .values({ actor, key, fingerprint, answer: null })
    .onConflict((conflict) =>
      conflict
        .columns(['actor', 'key'])
        .doUpdateSet({ fingerprint, answer: null, at: sql`clock_timestamp()` })
        .where('idempotency_keys.at', '<', expired()),
    )
    .returning('key')
    .executeTakeFirst()
  if (claimed !== undefined) return null
  const earlier = await trx
    .selectFrom('idempotency_keys')
    .where('actor', '=', actor)
    .where('key', '=', key)
    .select(['fingerprint', 'answer'])
    .executeTakeFirstOrThrow()
  return { isSame: earlier.fingerprint.equals(fingerprint), answer: earlier.answer }
}

/** Keeps the answer to the write of this transaction under the key that it claimed. */
export async function keepAnswer(
  trx: Trx,
  { actor, key }: RequestKey,
  answer: KeptAnswer,
): Promise<void> {
  await trx
    .updateTable('idempotency_keys')
    .set({ answer: JSON.stringify(answer) })
    .where('actor', '=', actor)
    .where('key', '=', key)
    .execute()
}

/** Forgets keys that have expired, and the oldest beyond the bound; true when there may be more. */
export async function forgetKeys(db: Db): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('idempotency_keys')
    .where((eb) =>
      eb(
        eb.refTuple('actor', 'key'),
        'in',
        eb
          .selectFrom('idempotency_keys')
          .where('at', '<', sql<Date>`greatest(${expired()}, (${newestKept}))`)
          .orderBy('at')
          .limit(FORGOTTEN_MAX)
          .select(['actor', 'key'])
          .$asTuple('actor', 'key'),
      ),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows) === FORGOTTEN_MAX
}

function expired() {
  return sql<Date>`clock_timestamp() - make_interval(hours => ${KEY_HOURS})`
}

/** Null while there are no more than are kept; `greatest` leaves it out then. */
const newestKept = sql<Date | null>`select at from idempotency_keys order by at desc offset ${KEYS_MAX} limit 1`
