import { describe, expect, it, vi } from 'vitest'
import { createLogger, redactUrls } from '../../../shared/runtime/logger.ts'

/** The line that logging `fields` writes. */
function logged(fields: object): string {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    createLogger({ service: 'test', region: 'r', level: 'info' }).error(fields, 'failed')
    return write.mock.calls.map(([line]) => String(line)).join('')
  } finally {
    write.mockRestore()
  }
}

describe('redactUrls', () => {
  it.each([
    ['redis://user:pw@host:1/0', 'redis://[redacted]@host:1/0'],
    ['connect to postgres://u:p%40ss@db failed', 'connect to postgres://[redacted]@db failed'],
    ['redis://:p@ss@host', 'redis://[redacted]@host'],
    ['redis://u:pa/ss@host', 'redis://[redacted]@host'],
    [
      'a nats://u:x@one and a nats://u:y@two',
      'a nats://[redacted]@one and a nats://[redacted]@two',
    ],
    ['nats://host:4222', 'nats://host:4222'],
    ['http://host/path and mail@example', 'http://host/path and mail@example'],
  ])('cuts the credentials out of %s', (text, expected) => {
    expect(redactUrls(text)).toBe(expected)
  })
})

describe('createLogger', () => {
  it('writes its base fields and the message as one line of JSON', () => {
    const line = logged({ port: 1 })
    expect(JSON.parse(line)).toMatchObject({ service: 'test', region: 'r', port: 1, msg: 'failed' })
  })

  it('keeps passwords out of an error, its causes and its fields', () => {
    const cause = new Error('cannot reach redis://u:hunter2@host')
    const err = Object.assign(new Error('start failed', { cause }), {
      input: 'redis://u:hunter2@host',
      tried: [{ url: 'redis://u:hunter2@host' }],
    })
    const line = logged({ err })
    expect(line).toContain('start failed')
    expect(line).toContain('[redacted]@host')
    expect(line).not.toContain('hunter2')
  })

  it('keeps the arguments of a command that failed out of its error', () => {
    const command = { name: 'hello', args: ['3', 'AUTH', 'enforcer', 'hunter2'] }
    const line = logged({ err: Object.assign(new Error('WRONGPASS'), { command }) })
    expect(line).toContain('"name":"hello"')
    expect(line).not.toContain('hunter2')
  })

  it.each([['a text redis://u:hunter2@h'], [undefined], [null], [{ url: 'redis://u:hunter2@h' }]])(
    'logs %o thrown in place of an error',
    (thrown) => {
      const line = logged({ err: thrown })
      expect(line).toContain('failed')
      expect(line).not.toContain('hunter2')
    },
  )

  it('logs an error that refers to itself', () => {
    const err: Error & { self?: unknown } = new Error('loops')
    err.self = { err }
    expect(logged({ err })).toContain('loops')
  })

  it('redacts tokens and authorization headers', () => {
    const line = logged({ token: 'a1', req: { headers: { authorization: 'Bearer b2' } } })
    expect(line).not.toMatch(/a1|b2/)
  })
})
