import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { inject } from 'vitest'

/** URL of a migrated database that nobody else has. It goes with the server at the end of the run. */
export async function testDatabaseUrl(): Promise<string> {
  const answer = await text(connect(inject('databaseBroker')))
  if (!answer.startsWith('postgresql://')) throw new Error(`no test database: ${answer}`)
  return answer
}
