import { sql } from 'kysely'
import type { EmergencyAction, EmergencyEffect } from '../core/emergency.ts'
import type { Db, Trx } from './plane.ts'
import type { PolicyKey } from './policies.ts'

/** An action with what its operator said beside it. */
export interface StoredAction extends EmergencyAction {
  /** Of a pin that moves the base: weights in per cent. */
  readonly split: Readonly<Record<string, number>> | null
  readonly reason: string
  readonly begunBy: string
  readonly begunAtMs: number
}

export interface ActionOfPolicy extends StoredAction, PolicyKey {
  readonly policyId: number
}

export interface ActionValues {
  readonly policyId: number
  readonly effect: EmergencyEffect
  readonly split: Readonly<Record<string, number>> | null
  readonly reason: string
  readonly begunBy: string
  readonly begunAtMs: number
  readonly expiresAtMs: number
}

/** Gives the id of the action that was added. */
export async function insertAction(trx: Trx, values: ActionValues): Promise<number> {
  const { id } = await trx
    .insertInto('emergency_actions')
    .values({
      policy_id: values.policyId,
      effect: JSON.stringify(values.effect),
      split: values.split === null ? null : JSON.stringify(values.split),
      reason: values.reason,
      begun_by: values.begunBy,
      begun_at: new Date(values.begunAtMs),
      expires_at: new Date(values.expiresAtMs),
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function deleteAction(trx: Trx, id: number): Promise<void> {
  await trx.deleteFrom('emergency_actions').where('id', '=', id).execute()
}

/** Ends a pin whose base has still to go back. */
export async function markEnded(trx: Trx, id: number, nowMs: number): Promise<void> {
  await trx
    .updateTable('emergency_actions')
    .set({ ended_at: new Date(nowMs) })
    .where('id', '=', id)
    .execute()
}

export async function findAction(db: Db, id: number): Promise<ActionOfPolicy | null> {
  const row = await selectActions(db)
    .where('emergency_actions.id', '=', id)
    .where('ended_at', 'is', null)
    .executeTakeFirst()
  return row === undefined ? null : toAction(row)
}

/** Actions that have not ended at `atMs`, by id, beginning after `afterId`. */
export async function listActions(
  db: Db,
  query: {
    readonly domain?: string | undefined
    readonly afterId: number
    readonly atMs: number
    readonly limit: number
  },
): Promise<readonly ActionOfPolicy[]> {
  let select = selectActions(db)
    .where('emergency_actions.id', '>', query.afterId)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', new Date(query.atMs))
    .orderBy('emergency_actions.id')
    .limit(query.limit)
  if (query.domain !== undefined) select = select.where('policies.domain', '=', query.domain)
  return (await select.execute()).map(toAction)
}

/** Actions whose time is over at `atMs` and that have not been ended, the oldest first. */
export async function listExpired(
  db: Db,
  atMs: number,
  limit: number,
): Promise<readonly ActionOfPolicy[]> {
  const rows = await selectActions(db)
    .where('ended_at', 'is', null)
    .where('expires_at', '<=', new Date(atMs))
    .orderBy('emergency_actions.id')
    .limit(limit)
    .execute()
  return rows.map(toAction)
}

/** Pins that have ended while the base is not back yet. */
export async function listEndedPins(db: Db): Promise<readonly ActionOfPolicy[]> {
  const rows = await selectActions(db).where('ended_at', 'is not', null).execute()
  return rows.map(toAction)
}

function selectActions(db: Db) {
  return db
    .selectFrom('emergency_actions')
    .innerJoin('policies', 'policies.id', 'emergency_actions.policy_id')
    .select([
      'emergency_actions.id',
      'emergency_actions.policy_id as policyId',
      'policies.domain',
      'policies.name',
      'emergency_actions.effect',
      'emergency_actions.split',
      'emergency_actions.reason',
      'emergency_actions.begun_by as begunBy',
      sql<number>`floor(extract(epoch from begun_at) * 1000)::bigint`.as('begunAtMs'),
      sql<number>`floor(extract(epoch from expires_at) * 1000)::bigint`.as('expiresAtMs'),
    ])
}

type ActionRow = Awaited<ReturnType<ReturnType<typeof selectActions>['execute']>>[number]

function toAction(row: ActionRow): ActionOfPolicy {
  return { ...row, begunAtMs: Number(row.begunAtMs), expiresAtMs: Number(row.expiresAtMs) }
}
