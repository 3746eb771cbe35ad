import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

let admin: Admin
let env: Record<string, string>

async function run(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(args, io)
  return { exitCode, out: io.written.out.trim(), err: io.written.err }
}

beforeAll(async () => {
  admin = await startAdmin()
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
})
afterAll(() => admin.close())

describe('quotaplane region register', () => {
  it('makes regions known, and leaves those that are known as they are', async () => {
    expect(await run('region', 'register', 'us-east-9', 'eu-west-9')).toMatchObject({
      exitCode: 0,
      out: 'us-east-9 registered\neu-west-9 registered',
    })
    const again = await run('region', 'register', 'eu-west-9', 'ap-south-9')
    expect(again.out).toBe('eu-west-9 is known\nap-south-9 registered')
    const { out } = await run('region', 'list', '-o', 'name')
    for (const region of ['us-east-9', 'eu-west-9', 'ap-south-9']) expect(out).toContain(region)
  })

  it('registers none when one name is no name', async () => {
    const refused = await run('region', 'register', 'sa-east-9', 'Not A Region')
    expect(refused.exitCode).toBe(2)
    expect(refused.err).toContain('lower-case letters')
    expect((await run('region', 'list', '-o', 'name')).out).not.toContain('sa-east-9')
  })

  it('plans a drain without carrying it out, and keeps the reason of one that is', async () => {
    await run('region', 'register', 'us-east-1', 'eu-west-1')
    const planned = await run('region', 'drain', 'eu-west-1', '--dry-run')
    expect(planned).toMatchObject({ exitCode: 0 })
    expect(planned.out).toContain('Dry run: nothing was changed.')
    const state = async () => (await admin.call('GET', '/v1/regions/eu-west-1')).body.state
    expect(await state()).toBe('active')
    await run('region', 'drain', 'eu-west-1', '--reason', 'work on the site')
    expect(await state()).not.toBe('active')
    const { items } = (await admin.call('GET', '/v1/audit?limit=1')).body
    expect(items[0]).toMatchObject({ objectId: 'eu-west-1', reason: 'work on the site' })
  })

  it('says how a drain ends: by itself after --for, and otherwise by which command', async () => {
    await run('region', 'register', 'us-east-1', 'ap-south-1')
    const open = await run('region', 'drain', 'ap-south-1')
    expect(open.out).toContain('it stays so until quotaplane region resume ap-south-1')
    const ended = await run('region', 'drain', 'ap-south-1', '--for', '2h')
    const { resumesAt } = (await admin.call('GET', '/v1/regions/ap-south-1')).body
    expect(Date.parse(resumesAt)).toBe(admin.clock.nowMs + 7_200_000)
    expect(ended.out).toContain(`it resumes by itself at ${resumesAt}`)
    expect((await run('region', 'list')).out).toContain(`until ${resumesAt}`)
    const refused = await run('region', 'drain', 'ap-south-1', '--for', '8d')
    expect([refused.exitCode, refused.err]).toEqual([2, expect.stringContaining('at most 7d')])
  })
})
