import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

let admin: Admin
let env: Record<string, string>
let folder: string
let nextDomain = 0
let domain: string

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
})
afterAll(() => admin.close())
beforeEach(async () => {
  domain = `cli-${++nextDomain}`
  folder = await mkdtemp(join(tmpdir(), 'quota-apply-'))
  return () => rm(folder, { recursive: true })
})

async function run(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(args, io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

const policy = (name: string, more = '', capacity = 100) => `domain: ${domain}
name: ${name}
match: [{ key: ${name} }]
${more}limits:
  - name: per-second
    algorithm: token_bucket
    capacity: ${capacity}
    windowMs: 1000
    split: { us-east-1: 60, eu-west-1: 40 }
`
const write = async (name: string, text: string): Promise<string> => {
  const path = join(folder, name)
  await writeFile(path, text)
  return path
}
const names = async (): Promise<string[]> =>
  (await admin.call('GET', `/v1/policies?domain=${domain}`)).body.items.map(
    ({ name }: { name: string }) => name,
  )
const newest = async (): Promise<number> =>
  Number((await admin.call('GET', '/v1/revisions?limit=1')).etag?.replaceAll('"', ''))

describe('quotaplane apply and diff', () => {
  it('take files and folders, and tell by exit code whether anything differs', async () => {
    await mkdir(join(folder, 'deep'))
    await write('a.yaml', `${policy('a')}---\n${policy('b')}`)
    await write('deep/c.yml', policy('c'))
    await write('notes.txt', 'no policy')
    const diff = await run('diff', '-f', folder)
    expect(diff).toMatchObject({ exitCode: 1, err: '' })
    expect(diff.out).toContain(`+++ policy ${domain}/c`)
    const applied = await run('apply', '-f', folder, '--reason', 'für Köln')
    expect(applied).toMatchObject({ exitCode: 0, err: '' })
    expect(applied.out.split('\n')[0]).toMatch(
      new RegExp(`^${domain}/a created \\(revision \\d+\\)$`),
    )
    expect(await names()).toEqual(['a', 'b', 'c'])
    expect(await run('diff', '-f', folder)).toEqual({ exitCode: 0, out: '', err: '' })
    const { body } = await admin.call('GET', `/v1/revisions/${await newest()}`)
    expect(body).toMatchObject({ reason: 'für Köln', changeCount: 3 })
    const missing = await run('diff', '-f', join(folder, 'none.yaml'))
    expect(missing).toMatchObject({ exitCode: 2, out: '' })
  })

  it('prune what has the labels and is in no file', async () => {
    const labels = 'labels: { team: search }\n'
    const file = await write('all.yaml', `${policy('a', labels)}---\n${policy('b', labels)}`)
    await run('apply', '-f', file)
    await write('all.yaml', policy('a', labels))
    expect((await run('apply', '-f', file)).exitCode).toBe(0)
    expect(await names()).toEqual(['a', 'b'])
    const pruned = await run('apply', '-f', file, '--prune', '-l', 'team=search')
    expect(pruned.out).toContain(`${domain}/b deleted`)
    expect(await names()).toEqual(['a'])
    expect((await run('apply', '-f', file, '--prune')).exitCode).toBe(2)
  })

  it('name the file, line and field of what admin refuses, and apply nothing', async () => {
    const file = await write(
      'bad.yaml',
      `${policy('a')}---\n${policy('b').replace('eu-west-1', 'mars')}`,
    )
    const refused = await run('apply', '-f', file)
    expect(refused.exitCode).toBe(1)
    expect(refused.err).toContain(
      `${file}:19: limits[0].split.mars: mars is not a registered region`,
    )
    expect(refused.err).toContain('Nothing was applied.')
    expect(await names()).toEqual([])
  })

  it('show with --dry-run what would change, in each region too, and change nothing', async () => {
    const file = await write('a.yaml', policy('a'))
    await run('apply', '-f', file)
    await write('a.yaml', policy('a', '', 200))
    const before = await newest()
    const planned = await run('apply', '-f', file, '--dry-run')
    expect(planned).toMatchObject({ exitCode: 0, err: '' })
    expect(planned.out).toContain('-    capacity: 100\n+    capacity: 200')
    expect(planned.out).toMatch(/per-second +changed +us-east-1 +60 +120/)
    const removal = await run('policy', 'delete', `${domain}/a`, '--dry-run')
    expect(removal.out).toContain('+++ /dev/null')
    const override = await run('override', 'set', `${domain}/a`, 'acme', '--deny', '--dry-run')
    expect(override.out).toContain('deny: true')
    expect(await newest()).toBe(before)
    expect(await run('apply', '-f', await write('a.yaml', policy('a')), '--dry-run')).toMatchObject(
      {
        out: 'Nothing would change.\n',
      },
    )
  })
})

describe('quotaplane revision and rollback', () => {
  it('list, show, compare and bring back', async () => {
    const file = await write('a.yaml', policy('a'))
    await run('apply', '-f', file, '--reason', 'first')
    const first = await newest()
    await run('apply', '-f', await write('a.yaml', policy('a', '', 200)), '--reason', 'second')
    const second = await newest()

    const list = await run('revision', 'list', '--limit', '2')
    expect(list.out.split('\n')[1]).toMatch(
      new RegExp(`^ *${second} .*admin-token +policy.update ${domain}/a +second$`),
    )
    expect((await run('revision', 'show', String(second))).out).toContain('Reason: second')
    const diff = await run('revision', 'diff', String(second))
    expect(diff).toMatchObject({ exitCode: 1 })
    expect(diff.out).toContain('-    capacity: 100\n+    capacity: 200')
    expect(
      (await run('revision', 'diff', String(first), '--against', String(first))).exitCode,
    ).toBe(0)
    expect((await run('revision', 'diff', '99999999')).exitCode).toBe(2)

    const plan = await run('rollback', String(first), '--dry-run')
    expect(plan.out).toContain('+    capacity: 100')
    const back = await run('rollback', String(first), '--reason', 'too much')
    expect(back).toMatchObject({ exitCode: 0, err: '' })
    expect(back.out).toContain(`as they were at revision ${first}, as revision ${second + 1}`)
    const { body } = await admin.call('GET', `/v1/domains/${domain}/policies/a`)
    expect(body.limits[0].capacity).toBe(100)
    const { body: revision } = await admin.call('GET', `/v1/revisions/${second + 1}`)
    expect(revision.reason).toBe('too much')
  })
})

describe('a write of which the answer is lost', () => {
  let proxy: Server
  let cut = 0
  beforeAll(async () => {
    // Passes requests on and, while it is to, hangs up in place of each answer.
    proxy = createServer((req, res) => {
      void (async () => {
        const chunks: Buffer[] = []
        for await (const chunk of req) chunks.push(chunk as Buffer)
        const answer = await admin.app.inject({
          method: req.method as 'POST',
          url: req.url ?? '',
          headers: req.headers,
          payload: Buffer.concat(chunks),
        })
        if (cut > 0) {
          cut--
          req.socket.destroy()
          return
        }
        res.writeHead(answer.statusCode, answer.headers as Record<string, string>).end(answer.body)
      })()
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  })
  afterAll(() => proxy.close())

  it('is repeated by itself with its key, and carried out once', async () => {
    const file = await write('a.yaml', policy('a'))
    const address = proxy.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const before = await newest()
    cut = 1
    const io = ioWith({ env: { ...env, QUOTAPLANE_URL: `http://127.0.0.1:${port}` } })
    expect(await runProgram(['apply', '-f', file], io)).toBe(0)
    expect(cut).toBe(0)
    expect(io.written.out).toContain(`${domain}/a created`)
    expect(await newest()).toBe(before + 1)
  })
})
