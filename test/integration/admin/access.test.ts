import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createJwtVerifier } from '../../../services/admin/access/jwt.ts'
import { TOKEN_BELIEVED_MS } from '../../../services/admin/access/token-book.ts'
import { type Admin, type Answer, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  await admin.create({ domain: 'billing' })
})
afterAll(() => admin.close())

let names = 0
async function aToken(request: object): Promise<{ id: string; token: string; name: string }> {
  const { status, body } = await admin.call('POST', '/v1/tokens', {
    name: `token-${++names}`,
    ...request,
  })
  expect(status).toBe(201)
  return body
}

const as = (token: string) => ({ authorization: `Bearer ${token}` })

function callAs(
  token: string,
  method: 'GET' | 'PUT' | 'POST' | 'DELETE',
  url: string,
  body?: unknown,
): Promise<Answer> {
  return admin.call(method, url, body, as(token))
}

describe('a token', () => {
  it('is shown once, and neither the database nor the audit log can give it back', async () => {
    const { id, token, name } = await aToken({ scopes: ['quota:read'] })
    // The secret may have a _ of its own.
    const secret = token.split('_').slice(2).join('_')
    expect(secret).not.toBe('')
    const shown = await admin.call('GET', `/v1/tokens/${id}`)
    expect(shown.body).toMatchObject({ name, scopes: ['quota:read'], domains: null })
    const list = await admin.call('GET', '/v1/tokens')
    const audit = await admin.call('GET', '/v1/audit?objectKind=token')
    const rows = await admin.db.selectFrom('tokens').selectAll().execute()
    for (const place of [shown.body, list.body, audit.body, rows]) {
      expect(JSON.stringify(place)).not.toContain(secret)
    }
    expect(audit.body.items[0]).toMatchObject({ action: 'token.create', objectId: name })
  })

  it('reads or writes by its scopes, and a refusal names the one that is missing', async () => {
    const reader = await aToken({ scopes: ['quota:read'] })
    expect((await callAs(reader.token, 'GET', '/v1/policies')).status).toBe(200)
    const refused = await callAs(reader.token, 'POST', '/v1/policies', aPolicy({ name: 'other' }))
    expect(refused.status).toBe(403)
    expect(refused.body).toMatchObject({ code: 'QUOTA_FORBIDDEN' })
    expect(refused.body.detail).toContain('needs the scope quota:write')
    expect(refused.headers['www-authenticate']).toContain('scope="quota:write"')
    const writer = await aToken({ scopes: ['quota:write'] })
    expect((await callAs(writer.token, 'GET', '/v1/policies')).status).toBe(403)
    expect((await callAs(writer.token, 'PUT', '/v1/regions/ap-1', {})).body.detail).toContain(
      'quota:admin',
    )
    expect((await callAs(writer.token, 'POST', '/v1/tokens', {})).status).toBe(403)
    expect((await callAs(reader.token, 'GET', '/v1/tokens')).status).toBe(403)
  })

  it('with quota:admin may do everything, and its name is in the audit log', async () => {
    const root = await aToken({ scopes: ['quota:admin'] })
    const made = await callAs(
      root.token,
      'POST',
      '/v1/policies',
      aPolicy({ name: 'by-root', match: [{ key: 'x' }] }),
    )
    expect(made.status).toBe(201)
    const { body } = await callAs(root.token, 'GET', '/v1/audit?objectId=api/by-root')
    expect(body.items[0].actor).toBe(`token:${root.name}`)
  })

  it('that is limited to domains touches those alone, whichever way the domain is named', async () => {
    const { token } = await aToken({ scopes: ['quota:read', 'quota:write'], domains: ['api'] })
    expect((await callAs(token, 'GET', POLICY)).status).toBe(200)
    expect((await callAs(token, 'GET', '/v1/policies?domain=api')).status).toBe(200)
    expect((await callAs(token, 'GET', '/v1/regions')).status).toBe(200)
    const foreign: Answer[] = await Promise.all([
      callAs(token, 'GET', '/v1/domains/billing/policies/per-tenant'),
      callAs(token, 'GET', '/v1/policies?domain=billing'),
      callAs(token, 'GET', '/v1/policies'),
      callAs(token, 'GET', '/v1/audit'),
      callAs(token, 'POST', '/v1/policies', aPolicy({ domain: 'billing', name: 'n' })),
      callAs(token, 'PUT', '/v1/domains/api/policies/n', aPolicy({ domain: 'billing', name: 'n' })),
      callAs(token, 'DELETE', '/v1/domains/billing/policies/per-tenant'),
    ])
    expect(foreign.map(({ status }) => status)).toEqual(foreign.map(() => 403))
    expect(foreign[0]?.body.detail).toContain('limited to api')
  })

  it('that is limited to domains gains nothing by naming one of them where the route takes none', async () => {
    const { token, id } = await aToken({ scopes: ['quota:admin'], domains: ['api'] })
    const rest = { name: 'unlimited', scopes: ['quota:admin'] }
    const bodies: readonly (readonly ['GET' | 'PUT' | 'POST' | 'DELETE', string, object?])[] = [
      ['GET', '/v1/revisions'],
      ['GET', '/v1/revisions/1'],
      ['GET', '/v1/revisions/1/diff'],
      ['GET', '/v1/doctor'],
      ['GET', '/v1/tokens'],
      ['GET', `/v1/tokens/${id}`],
      ['POST', '/v1/revisions/1/rollback'],
      ['POST', '/v1/revisions/1/rollback', { domain: 'api' }],
      ['POST', '/v1/tokens', rest],
      ['POST', '/v1/tokens', { ...rest, domains: ['api'] }],
      ['POST', '/v1/tokens', { ...rest, domains: [{ domain: 'api' }] }],
      ['DELETE', `/v1/tokens/${id}`],
      ['DELETE', `/v1/tokens/${id}`, { domain: 'api' }],
      ['PUT', '/v1/regions/ap-south-1', { domain: 'api' }],
      ['DELETE', '/v1/regions/us-east-1', { domain: 'api' }],
      ['POST', '/v1/regions/us-east-1/drain', { domain: 'api' }],
      ['POST', '/v1/regions/us-east-1/resume', { documents: [{ domain: 'api' }] }],
      ['POST', '/v1/regions/us-east-1/remove', { domain: 'api' }],
    ]
    const { body: before } = await admin.call('GET', '/v1/revisions')
    for (const [method, url, body] of bodies) {
      for (const query of ['', '?domain=api', '?domain=api&dryRun=true', '?dryRun=true']) {
        const { status } = await callAs(token, method, `${url}${query}`, body)
        expect([400, 403], `${method} ${url}${query} ${JSON.stringify(body)}`).toContain(status)
      }
    }
    expect((await admin.call('GET', '/v1/revisions')).body).toEqual(before)
    expect((await callAs(token, 'GET', '/v1/whoami')).status).toBe(200)
  })

  it('is refused within seconds of its revocation, and at once where it was revoked', async () => {
    const { id, token } = await aToken({ scopes: ['quota:read'] })
    const other = await startAdmin({ url: admin.url })
    const askOther = () => other.call('GET', '/v1/whoami', undefined, as(token))
    expect((await askOther()).status).toBe(200)
    expect((await callAs(token, 'GET', '/v1/whoami')).status).toBe(200)
    const revoked = await admin.call('DELETE', `/v1/tokens/${id}`)
    expect(revoked.body.revokedAt).not.toBeNull()
    expect((await callAs(token, 'GET', '/v1/whoami')).status).toBe(401)
    other.clock.nowMs += TOKEN_BELIEVED_MS
    expect((await askOther()).status).toBe(401)
    expect((await admin.call('DELETE', `/v1/tokens/${id}`)).body).toEqual(revoked.body)
    await other.close()
  })

  it('ends when it expires', async () => {
    const { token } = await aToken({ scopes: ['quota:read'], expiresInDays: 1 })
    expect((await callAs(token, 'GET', '/v1/whoami')).status).toBe(200)
    admin.clock.nowMs += 86_400_000
    expect((await callAs(token, 'GET', '/v1/whoami')).status).toBe(401)
  })

  it('is refused when any part of it is wrong, and never crashes what reads it', async () => {
    const { token } = await aToken({ scopes: ['quota:read'] })
    const [prefix, id, secret = ''] = token.split('_')
    const other = await aToken({ scopes: ['quota:read'] })
    const wrong = [
      `${prefix}_${id}_${secret.slice(0, -1)}`,
      `${prefix}_${id}_${[...secret].reverse().join('')}`,
      `${prefix}_${other.id}_${secret}`,
      `${prefix}_${'a'.repeat(16)}_${secret}`,
      'a.b.c',
      '__proto__',
      'x'.repeat(5_000),
    ]
    for (const text of wrong) expect((await callAs(text, 'GET', '/v1/whoami')).status).toBe(401)
  })

  it('says when it was used last', async () => {
    const { id, token } = await aToken({ scopes: ['quota:read'] })
    expect((await admin.call('GET', `/v1/tokens/${id}`)).body.lastUsedAt).toBeNull()
    await callAs(token, 'GET', '/v1/whoami')
    await admin.tokens.noteUses()
    const { body } = await admin.call('GET', `/v1/tokens/${id}`)
    expect(Date.parse(body.lastUsedAt)).toBe(admin.clock.nowMs)
  })

  it('cannot be made twice under one name, with no scope, or with one that does not exist', async () => {
    const { name } = await aToken({ scopes: ['quota:read'] })
    const make = (body: object) => admin.call('POST', '/v1/tokens', body)
    expect((await make({ name, scopes: ['quota:read'] })).status).toBe(409)
    const refused = await make({ name: 'bad', scopes: ['quota:everything'], domains: [] })
    expect(refused.status).toBe(400)
    expect(refused.body.errors.map(({ field }: { field: string }) => field)).toEqual([
      'scopes[0]',
      'domains',
    ])
    expect(refused.body.errors[0].fix).toContain('quota:read, quota:write')
    expect((await admin.call('DELETE', '/v1/tokens/unknown')).status).toBe(404)
  })
})

describe('the rate limit of the API', () => {
  it('answers 429 with a problem document and Retry-After beyond the most of a second', async () => {
    const limited = await startAdmin({ url: admin.url, requestsPerSecondMax: 3 })
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => limited.call('GET', '/v1/whoami')),
    )
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.body).toMatchObject({ code: 'QUOTA_TOO_MANY_REQUESTS', status: 429 })
    expect(Number(refused?.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    await limited.close()
  })
})

describe('an access token of an issuer', () => {
  const ISSUER = 'https://issuer.example'
  let keys: Awaited<ReturnType<typeof generateKeyPair>>
  let server: Server
  let federated: Admin

  beforeAll(async () => {
    keys = await generateKeyPair('ES256')
    const jwk = { ...(await exportJWK(keys.publicKey)), kid: 'k1', alg: 'ES256' }
    server = createServer((_req, res) => res.end(JSON.stringify({ keys: [jwk] })))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const jwksUrl = `http://127.0.0.1:${port}/keys`
    const verifyJwt = createJwtVerifier({ issuer: ISSUER, audience: 'quotaplane', jwksUrl })
    federated = await startAdmin({ url: admin.url, verifyJwt })
  })
  afterAll(async () => {
    await federated.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  const aJwt = (claims: Record<string, unknown>, issuer = ISSUER, key = keys.privateKey) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
      .setIssuer(issuer)
      .setAudience('quotaplane')
      .setSubject('alice')
      .setExpirationTime('5m')
      .sign(key)

  const whoami = (token: string) => federated.call('GET', '/v1/whoami', undefined, as(token))

  it('is taken with its scopes and domains, and its subject is in the audit log', async () => {
    const jwt = await aJwt({ scope: 'openid quota:read', quota_domains: ['api'] })
    expect((await whoami(jwt)).body).toEqual({
      actor: 'oidc:alice',
      scopes: ['quota:read'],
      domains: ['api'],
    })
    expect((await federated.call('GET', '/v1/policies', undefined, as(jwt))).status).toBe(403)
  })

  it('is refused with another issuer, key, audience, algorithm or end, and grants nothing by a wrong claim', async () => {
    const stranger = await generateKeyPair('ES256')
    const unsigned = `${btoa('{"alg":"none"}')}.${btoa(`{"sub":"alice","iss":"${ISSUER}"}`)}.`
    const expired = await new SignJWT({ scope: 'quota:admin' })
      .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
      .setIssuer(ISSUER)
      .setAudience('quotaplane')
      .setSubject('alice')
      .setExpirationTime(1)
      .sign(keys.privateKey)
    const wrong = [
      await aJwt({ scope: 'quota:admin' }, 'https://other.example'),
      await aJwt({ scope: 'quota:admin' }, ISSUER, stranger.privateKey),
      await aJwt({ scope: 'quota:admin', aud: 'other' }).then((jwt) => `${jwt.slice(0, -4)}AAAA`),
      unsigned.replaceAll('=', ''),
      `${unsigned.replaceAll('=', '')}x`,
      expired,
    ]
    for (const jwt of wrong) expect((await whoami(jwt)).status).toBe(401)
    const odd = await aJwt({ scope: { 'quota:admin': true }, quota_domains: 'api' })
    expect((await whoami(odd)).status).toBe(403)
  })
})
