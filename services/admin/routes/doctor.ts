import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { sql } from 'kysely'
import { z } from 'zod'
import { isQuotaError } from '../../../shared/errors.ts'
import type { Db } from '../../../shared/postgres/plane.ts'
import { listTokens } from '../../../shared/postgres/tokens.ts'
import { doctorReplySchema } from '../../../shared/protocol/doctor.ts'
import { PACKAGE_VERSION } from '../../../shared/runtime/assets.ts'
import { diagnose, type Patient } from '../views/doctor.ts'
import { type AdminDeps, failures } from './route-support.ts'

/** Tokens that end sooner are told of: time enough to replace one without haste. */
const EXPIRES_WITHIN_DAYS = 14

/** More tokens than this are not looked through; each service has one, and people some. */
const TOKENS_MAX = 10_000

/** Enforcers of one region that are told by name: whoever asks looks at each. */
const ENFORCERS_MAX = 50

const DAY_MS = 86_400_000

/** What is wrong with the installation, by what admin knows; what does not answer is a finding and no failure. */
export function doctorRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/doctor',
    {
      schema: {
        tags: ['views'],
        summary: 'Every part of the installation, what is wrong with it, and what to do',
        querystring: z.strictObject({}),
        response: { 200: doctorReplySchema, ...failures },
      },
    },
    async () => {
      const nowMs = deps.wallMs()
      const patient = await patientOf(deps, nowMs)
      const at = new Date(nowMs).toISOString()
      const enforcers = patient.regions.flatMap(({ region, report }) =>
        (report?.enforcers ?? []).slice(0, ENFORCERS_MAX).map(({ name }) => ({ region, name })),
      )
      return { at, version: PACKAGE_VERSION, findings: [...diagnose(patient)], enforcers }
    },
  )
}

async function patientOf(deps: AdminDeps, nowMs: number): Promise<Patient> {
  const { cache, live, facts } = deps
  const stored = await unlessAway(() => readStored(deps.db, nowMs))
  return {
    version: PACKAGE_VERSION,
    revision: cache.revision,
    isDatabaseUp: stored !== null && deps.isDatabaseUp(),
    isBusUp: deps.isBusUp(),
    postgresVersion: stored?.postgresVersion ?? null,
    tokens: stored?.tokens ?? [],
    regions: cache.members.map((region) => ({
      region,
      health: live.health(region, nowMs),
      facts: facts.of(region, nowMs),
      report: deps.rollouts.reportOf(region, nowMs),
    })),
  }
}

async function readStored(
  db: Db,
  nowMs: number,
): Promise<Pick<Patient, 'tokens'> & { readonly postgresVersion: number }> {
  const { rows } = await sql<{ server_version_num: string }>`show server_version_num`.execute(db)
  const tokens = await listTokens(db, { withRevoked: false, limit: TOKENS_MAX })
  return {
    postgresVersion: Math.floor(Number(rows[0]?.server_version_num ?? 0) / 10_000),
    tokens: tokens.flatMap(({ name, expiresAt }) => {
      const days = expiresAt === null ? null : (expiresAt.getTime() - nowMs) / DAY_MS
      return days === null || days > EXPIRES_WITHIN_DAYS ? [] : [{ name, expiresInDays: days }]
    }),
  }
}

async function unlessAway<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read()
  } catch (err) {
    if (isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE')) return null
    throw err
  }
}
