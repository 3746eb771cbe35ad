import { describe, expect, it } from 'vitest'
import { LEASE_MS, LEASE_STORE_MS, Leadership } from '../../../services/sync/leadership.ts'

describe('the lease on a region', () => {
  it('is dated by the sending of the claim, not by its reply', async () => {
    const { leadership, store, clock } = aLeadership()
    store.delayMs = 1_000
    expect(await leadership.claim(store)).toBe('taken')
    clock.nowMs = LEASE_MS - 1
    expect(leadership.isHeld()).toBe(true)
    clock.nowMs = LEASE_MS
    expect(leadership.isHeld()).toBe(false)
  })

  it('ends here before it ends in Redis, whatever two clocks within the assumed drift do', async () => {
    const { leadership, store } = aLeadership()
    await leadership.claim(store)
    expect(store.ttlMs).toBe(LEASE_STORE_MS)
    expect(LEASE_STORE_MS * (1 - 1 / 1_000)).toBeGreaterThanOrEqual(LEASE_MS * (1 + 1 / 1_000))
  })

  it('goes on without a gap only when the reply comes while it is still held', async () => {
    const { leadership, store, clock } = aLeadership()
    await leadership.claim(store)
    clock.nowMs = LEASE_MS - 10
    expect(await leadership.claim(store)).toBe('continued')
    clock.nowMs += LEASE_MS - 10
    store.delayMs = 20
    expect(await leadership.claim(store)).toBe('taken')
  })

  it('is gone at once when it is refused, and survives one renewal that fails (B151)', async () => {
    const { leadership, store, clock } = aLeadership()
    await leadership.claim(store)
    store.fails = true
    clock.nowMs = 1_000
    await expect(leadership.claim(store)).rejects.toThrow('away')
    expect(leadership.isHeld()).toBe(true)
    store.fails = false
    store.isGranted = false
    expect(await leadership.claim(store)).toBe('refused')
    expect(leadership.isHeld()).toBe(false)
  })

  it('is not held from the moment that it is given up, also if the reply is lost', async () => {
    const { leadership, store } = aLeadership()
    await leadership.claim(store)
    store.fails = true
    await expect(leadership.release(store)).rejects.toThrow('away')
    expect(leadership.isHeld()).toBe(false)
  })
})

function aLeadership() {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs, wallMs: () => 0 }
  const store = {
    delayMs: 0,
    ttlMs: 0,
    isGranted: true,
    fails: false,
    async claimLeadership(_holder: string, ttlMs: number): Promise<boolean> {
      if (store.fails) throw new Error('Redis is away')
      store.ttlMs = ttlMs
      clock.nowMs += store.delayMs
      return store.isGranted
    },
    async releaseLeadership(): Promise<void> {
      if (store.fails) throw new Error('Redis is away')
    },
  }
  return { leadership: new Leadership('holder', clock), store, clock }
}
