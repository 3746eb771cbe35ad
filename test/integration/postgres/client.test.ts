import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { testDatabaseUrl } from '../../support/test-database.ts'

it('boots', async () => {
  const db = createDatabase({ url: await testDatabaseUrl(), onIdleError: () => {} })
  expect((await sql`select * from plane`.execute(db)).rows).toHaveLength(1)
  await db.destroy()
})
