import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { ChildFailure } from '../../../services/cli/plane/child.ts'
import { Ports, retryOnTakenPort } from '../../../services/cli/plane/ports.ts'

describe('the ports of a plane', () => {
  it('are the usual ones or their neighbours, each given once, and none that is taken', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await once(holder, 'listening')
    const usual = (holder.address() as AddressInfo).port
    const ports = new Ports('usual')
    const taken = await Promise.all([1, 2, 3].map(() => ports.take(usual)))
    holder.close()
    expect(taken).not.toContain(usual)
    expect(new Set(taken).size).toBe(3)
    expect(taken).toEqual([...taken].sort((a, b) => a - b))
    for (const port of taken) expect(port - usual).toBeLessThan(20)
  })

  it('are chosen again when another process was quicker to bind them', async () => {
    let attempts = 0
    const port = await retryOnTakenPort(async () => {
      attempts++
      if (attempts < 3) throw new ChildFailure('redis ended', 'bind: Address already in use')
      return 6379
    })
    expect(port).toBe(6379)
    expect(attempts).toBe(3)
  })

  it('are not chosen again for any other failure, nor for ever', async () => {
    const broken = (): Promise<never> => Promise.reject(new ChildFailure('ended', 'out of luck'))
    await expect(retryOnTakenPort(broken)).rejects.toThrow('out of luck')
    const busy = (): Promise<never> => Promise.reject(new ChildFailure('ended', 'EADDRINUSE'))
    await expect(retryOnTakenPort(busy)).rejects.toThrow('EADDRINUSE')
  })
})
