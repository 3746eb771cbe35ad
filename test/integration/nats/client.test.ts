import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { NatsLink } from '../../../shared/nats/client.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'

const log = pino({ level: 'silent' })
let nats: NatsServer
let link: NatsLink

beforeEach(async () => {
  nats = await startNats()
  link = new NatsLink({ url: nats.url, name: 'test', log })
})
afterEach(async () => {
  await link.close()
  await nats.stop()
})

const connected = (isConnected: boolean) =>
  expect.poll(() => link.isConnected(), { timeout: 10_000 }).toBe(isConnected)

describe('a link to NATS', () => {
  it('starts while NATS is away and connects once it is there (B154)', async () => {
    await nats.halt()
    link.start()
    expect(link.publish('subject', 'lost')).toBe(false)
    await expect(link.request('subject', 'lost', 100)).rejects.toMatchObject({
      code: 'QUOTA_BUS_UNAVAILABLE',
    })
    await nats.start()
    await connected(true)
  })

  it('comes back after each restart, with its subscriptions, and says so (B154)', async () => {
    const heard: string[] = []
    let returns = 0
    link.use((connection) => {
      connection.subscribe('subject', {
        callback: (_err, message) => void heard.push(message.string()),
      })
    })
    link.onReconnect(() => returns++)
    link.start()
    await connected(true)
    for (const round of ['first', 'second']) {
      const before = returns
      await nats.halt()
      await connected(false)
      expect(link.publish('subject', 'lost')).toBe(false)
      await nats.start()
      await connected(true)
      expect(returns).toBe(before + 1)
      await expect
        .poll(() => {
          link.publish('subject', round)
          return heard
        })
        .toContain(round)
    }
    expect(heard).not.toContain('lost')
  })

  it('goes on after a question that nobody answered and a payload that is too large (B158)', async () => {
    link.start()
    await connected(true)
    await expect(link.request('nobody', '', 100)).rejects.toMatchObject({
      code: 'QUOTA_BUS_UNAVAILABLE',
    })
    link.publish('subject', 'x'.repeat(2_000_000))
    const heard: string[] = []
    link.use((connection) => {
      connection.subscribe('subject', {
        callback: (_err, message) => void heard.push(message.string()),
      })
    })
    await expect
      .poll(() => {
        link.publish('subject', 'after')
        return heard
      })
      .toContain('after')
  })

  it.each(['away', 'frozen'])('closes in time while NATS is %s', async (state) => {
    link.start()
    await connected(true)
    if (state === 'away') await nats.halt()
    else nats.pause()
    const startedMs = performance.now()
    await link.close()
    expect(performance.now() - startedMs).toBeLessThan(4_000)
    if (state === 'away') await nats.start()
  })

  it('closes before it ever connected', async () => {
    await nats.halt()
    link.start()
    await link.close()
    await nats.start()
    expect(link.isConnected()).toBe(false)
  })
})
