import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { prepareServiceDatabase } from '../../../shared/postgres/service-database.ts'
import type { Tables } from '../../../shared/postgres/tables.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, AUTHORIZED, aLimit, POLICY, startAdmin, TOKEN } from './admin-harness.ts'

/** Changes that a token made by the API, and entries of a script: more than one page of an export. */
const CHANGES = 3
const SCRIPTED = 250

let admin: Admin
let env: Record<string, string>

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  await admin.create({ domain: 'a_i', match: [{ key: 'x' }] })
  const { body } = await admin.call('POST', '/v1/tokens', {
    name: 'writer',
    scopes: ['quota:write'],
    domains: ['api'],
  })
  for (let i = 0; i < CHANGES; i++) {
    const limits = [aLimit({ capacity: 20_000 + i })]
    const headers = { 'if-match': '*', authorization: `Bearer ${body.token}` }
    const document = { domain: 'api', name: 'per-tenant', match: [{ key: 'tenant' }], limits }
    await admin.call('PUT', POLICY, document, { ...headers, 'x-change-reason': `change ${i}` })
  }
  await sql`
    insert into audit (actor, action, object_kind, object_id, request_id)
    select 'script', 'test', 'policy', 'scripted/' || n, 'r' from generate_series(1, ${SCRIPTED}) n
  `.execute(admin.db)
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
})
afterAll(async () => await admin.close())

async function exported(
  query = '',
): Promise<readonly { seq: number; at: string; objectId: string }[]> {
  const url = `/v1/audit/export${query}`
  const answer = await admin.app.inject({ method: 'GET', url, headers: AUTHORIZED })
  expect(answer.headers['content-type']).toContain('application/x-ndjson')
  return answer.body
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
}
const listed = async (query: string) => (await admin.call('GET', `/v1/audit${query}`)).body

async function run(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(['audit', ...args], io)
  return { exitCode, lines: io.written.out.trimEnd().split('\n'), err: io.written.err }
}

describe('the audit log', () => {
  it('is exported whole, in order, each entry once, and from where an export ended', async () => {
    const all = await exported()
    const seqs = all.map(({ seq }) => seq)
    expect(seqs).toHaveLength(5 + CHANGES + SCRIPTED)
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b))
    expect(await exported(`?after=${seqs[200]}`)).toEqual(all.slice(201))
    expect(await exported(`?after=${seqs.at(-1)}`)).toEqual([])
  })

  it('says who, what, before, after, why and in which request', async () => {
    const [first] = (await listed('?actor=token:writer&limit=1')).items
    expect(first).toMatchObject({
      actor: 'token:writer',
      objectId: 'api/per-tenant',
      reason: `change ${CHANGES - 1}`,
      before: { limits: [{ capacity: 20_000 + CHANGES - 2 }] },
      after: { limits: [{ capacity: 20_000 + CHANGES - 1 }] },
      requestId: expect.stringMatching(/.+/),
    })
  })

  it('is filtered by actor, object, domain and time, in pages too', async () => {
    expect(await exported('?actor=token:writer')).toHaveLength(CHANGES)
    expect(await exported('?objectKind=region')).toHaveLength(2)
    expect(await exported('?objectId=a_i/per-tenant')).toHaveLength(1)
    // The underscore of a name is no wildcard: nothing of "api" is among it.
    expect((await exported('?domain=a_i')).map(({ objectId }) => objectId)).toEqual([
      'a_i/per-tenant',
    ])
    expect(await exported('?since=2099-01-01T00:00:00Z')).toEqual([])
    const at = (await exported('?actor=script'))[0]?.at ?? ''
    // What is older than all that one page holds of the newest.
    const actionsOf = async (more: string) =>
      (await listed(`?objectKind=policy&limit=100${more}`)).items.map(
        ({ action }: { action: string }) => action,
      )
    expect(new Set(await actionsOf(''))).toEqual(new Set(['test']))
    const earlier = await actionsOf(`&until=${at}`)
    expect([earlier.includes('policy.create'), earlier.includes('test')]).toEqual([true, false])
    expect(await actionsOf(`&since=${at}&until=${at}`)).toEqual([])
    const page = await listed('?actor=script&limit=100')
    const rest = await listed(`?actor=script&limit=100&cursor=${page.next}`)
    expect(rest.items[0].seq).toBe(page.items.at(-1).seq - 1)
  })

  it('shows a token that is limited to domains nothing of others', async () => {
    const made = await admin.call('POST', '/v1/tokens', {
      name: 'reader',
      scopes: ['quota:read'],
      domains: ['a_i'],
    })
    const as = { authorization: `Bearer ${made.body.token}` }
    for (const path of ['/v1/audit', '/v1/audit/export', '/v1/audit?domain=api']) {
      expect((await admin.call('GET', path, undefined, as)).status).toBe(403)
    }
    expect(
      (await admin.call('GET', '/v1/audit?domain=a_i', undefined, as)).body.items,
    ).toHaveLength(1)
  })
})

describe('the role that admin runs as', () => {
  it('can do all that admin does and neither change, remove nor forget an audit entry', async () => {
    const url = admin.url.replace(/\/\/[^@/]*@/, '//quotaplane_service:secret@')
    expect(url).toContain('quotaplane_service')
    const [owner, role] = [{ url: admin.url }, { url }]
    await prepareServiceDatabase({ owner, service: role, migrations: 'migrations' })
    const service = await startAdmin({ url })
    expect(service.follower.isDatabaseUp()).toBe(true)
    const made = await service.create({ name: 'by-service', match: [{ key: 'by' }] })
    expect(made.status).toBe(201)
    const db = createDatabase<Tables>({ url, onIdleError: () => {} })
    for (const forbidden of [
      'update audit set actor = $$nobody$$',
      'delete from audit',
      'truncate audit',
      'drop table audit',
      'alter table audit disable trigger audit_append_only',
    ]) {
      await expect(sql.raw(forbidden).execute(db)).rejects.toThrow(
        /permission denied|must be owner/,
      )
    }
    await db.destroy()
    await service.close()
  })
})

describe('quotaplane audit', () => {
  it('tails the latest changes, the newest last', async () => {
    const { exitCode, lines } = await run('tail', '-n', '2', '--actor', 'token:writer')
    expect(exitCode).toBe(0)
    expect(lines).toHaveLength(3)
    expect(lines[0]).toMatch(/^time +actor +action +object +reason$/)
    expect(lines[2]).toMatch(
      new RegExp(`token:writer .* policy api/per-tenant  change ${CHANGES - 1}$`),
    )
    const json = await run('tail', '-n', '1', '-o', 'json', '--object', 'us-east-1')
    expect(JSON.parse(json.lines[0] ?? '').entries).toMatchObject([{ objectKind: 'region' }])
  })

  it('exports JSON lines', async () => {
    const { lines } = await run('export', '--kind', 'region')
    expect(lines.map((line) => JSON.parse(line).objectId)).toEqual(['us-east-1', 'eu-west-1'])
  })

  it('follows: each later change is told once, and Ctrl-C is no failure', async () => {
    const stopping = new AbortController()
    const io = { ...ioWith({ env }), signal: stopping.signal }
    const done = runProgram(['audit', 'tail', '--follow', '-n', '1', '-o', 'json'], io)
    const seen = () => io.written.out.trim().split('\n').filter(Boolean)
    await expect.poll(() => seen().length, { timeout: 10_000 }).toBe(1)
    await admin.register('ap-south-1', 'sa-east-1')
    await expect.poll(() => seen().length, { timeout: 10_000 }).toBe(3)
    stopping.abort()
    expect(await done).toBe(0)
    expect(
      seen()
        .slice(1)
        .map((line) => JSON.parse(line).objectId),
    ).toEqual(['ap-south-1', 'sa-east-1'])
  })
})
