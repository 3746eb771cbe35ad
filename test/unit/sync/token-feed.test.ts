import { describe, expect, it } from 'vitest'
import type { HeardTokens } from '../../../services/sync/inbox.ts'
import { TokenFeed } from '../../../services/sync/token-feed.ts'
import type { MarkedTokens } from '../../../shared/nats/policy-client.ts'

const A_TOKEN = { id: 'a', digest: 'd', domains: null, expiresAtMs: null }

/** An admin that has tokens; `hint` says so to the feed. */
function aFeed() {
  const admin: { now: MarkedTokens | Error; asked: number } = {
    now: { mark: '1', asOfMs: 100, tokens: [] },
    asked: 0,
  }
  let hear: (mark: string) => void = () => {}
  let wanted = 0
  const told: HeardTokens[] = []
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs }
  const feed = new TokenFeed({
    client: {
      onTokensMark: (handle) => {
        hear = handle
      },
      checkTokens: async () => {
        admin.asked++
        clock.nowMs += 10
        if (admin.now instanceof Error) throw admin.now
        return admin.now
      },
    },
    clock,
    onTokens: (tokens) => told.push(tokens),
    onWanted: () => wanted++,
  })
  return { admin, feed, hint: (mark: string) => hear(mark), told, wanted: () => wanted }
}

describe('a feed of tokens', () => {
  it('asks nothing of an admin that says nothing of tokens', async () => {
    const { admin, feed } = aFeed()
    await feed.pullOnce()
    expect(admin.asked).toBe(0)
  })

  it('asks once for each mark that it does not know, and tells what came', async () => {
    const { admin, feed, hint, told, wanted } = aFeed()
    hint('1')
    await feed.pullOnce()
    hint('1')
    await feed.pullOnce()
    expect([admin.asked, wanted(), told.length]).toEqual([1, 1, 1])
    admin.now = { mark: '2', asOfMs: 200, tokens: [A_TOKEN] }
    hint('2')
    await feed.pullOnce()
    expect(told.at(-1)).toEqual({ tokens: { asOfMs: 200, tokens: [A_TOKEN] }, askedAtMs: 10 })
  })

  it('goes on asking after a failure, and until then tells nothing', async () => {
    const { admin, feed, hint, told } = aFeed()
    admin.now = new Error('admin is away')
    hint('1')
    await expect(feed.pullOnce()).rejects.toThrow('admin is away')
    expect([feed.isBehind, told.length]).toEqual([true, 0])
    admin.now = { mark: '1', asOfMs: 100, tokens: [] }
    await feed.pullOnce()
    expect([feed.isBehind, told.length]).toEqual([false, 1])
  })

  it('takes a late hint for a reason to ask, and never for older tokens', async () => {
    const { admin, feed, hint, told } = aFeed()
    admin.now = { mark: '2', asOfMs: 200, tokens: [A_TOKEN] }
    hint('2')
    await feed.pullOnce()
    hint('1')
    await feed.pullOnce()
    expect(admin.asked).toBe(2)
    expect(told.at(-1)?.tokens.tokens).toEqual([A_TOKEN])
    expect(feed.isBehind).toBe(false)
  })
})
