import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { addressKey, senderKey } from '../../shared/core/client-address.ts'

const key = (text: string): string | null => addressKey(text, 64)

function sender(
  trustedHops: number,
  forwardedFor?: string,
  peer: string | undefined = '10.0.0.1',
): string | null {
  return senderKey({ peer, forwardedFor, trustedHops, ipv6Prefix: 64 })
}

describe('the key of an address', () => {
  it('is one for a whole network of IPv6, and others for its neighbours (B076)', () => {
    const inside = Array.from({ length: 50 }, (_, host) =>
      key(`2001:db8:1:2::${host.toString(16)}`),
    )
    expect(new Set(inside)).toEqual(new Set(['2001:db8:1:2::/64']))
    expect(key('2001:db8:1:3::1')).not.toBe(inside[0])
    expect(addressKey('2001:db8:1:2ff::1', 56)).toBe('2001:db8:1:200::/56')
  })

  it.each([
    [['2001:DB8::1', '2001:db8:0:0::1', '2001:0db8:0:0:0:0:0:1', '2001:db8::1%eth0']],
    [['::ffff:192.0.2.1', '192.0.2.1', '::FFFF:c000:201', '0:0:0:0:0:ffff:192.0.2.1']],
    [['::', '::1', '0:0:0:0:0:0:0:0']],
  ])('is one for all spellings of an address (B076): %s', (spellings) => {
    expect(new Set(spellings.map(key)).size).toBe(1)
    expect(key(spellings[0] ?? '')).not.toBeNull()
  })

  it.each([
    '',
    'unknown',
    '1.2.3',
    '1.2.3.256',
    '01.2.3.4',
    '1::2::3',
    ':::',
    '1:2:3:4:5:6:7',
    'g::1',
    '1:2:3:4:5:6:7:8:9',
    '::1.2.3.4.5',
  ])('is none for %j', (text) => {
    expect(key(text)).toBeNull()
  })

  it('never throws, and is its own key where it is an IPv4 address', () => {
    fc.assert(fc.property(fc.ipV4(), (text) => key(text) === text))
    fc.assert(fc.property(fc.ipV6(), (text) => key(text) !== null))
    fc.assert(
      fc.property(fc.string(), (text) => {
        key(text)
        sender(3, text)
      }),
    )
  })
})

describe('the sender of a request', () => {
  it('is the peer while no proxy is trusted, whatever the header says (B077)', () => {
    for (const forged of ['203.0.113.9', '203.0.113.9, 198.51.100.7', '', undefined]) {
      expect(sender(0, forged)).toBe('10.0.0.1')
    }
  })

  it('is counted from the right over trusted proxies, so that forged entries mean nothing (B077)', () => {
    expect(sender(2, '198.51.100.7, 10.0.0.2')).toBe('198.51.100.7')
    for (const forged of ['1.1.1.1', '2.2.2.2, 3.3.3.3', 'nonsense']) {
      expect(sender(2, `${forged}, 198.51.100.7, 10.0.0.2`)).toBe('198.51.100.7')
      expect(sender(1, `${forged}, 198.51.100.7`)).toBe('198.51.100.7')
    }
  })

  it('is the last that a proxy wrote where the chain is shorter or broken', () => {
    expect(sender(3, '198.51.100.7')).toBe('198.51.100.7')
    expect(sender(2, 'unknown, 10.0.0.2')).toBe('10.0.0.2')
    expect(sender(1, '')).toBe('10.0.0.1')
  })

  it('is read with a port as without', () => {
    expect(sender(1, '198.51.100.7:4711')).toBe('198.51.100.7')
    expect(sender(1, '[2001:db8::1]:443')).toBe('2001:db8:0:0::/64')
  })

  it('is nobody where neither is known', () => {
    expect(
      senderKey({ peer: undefined, forwardedFor: 'x', trustedHops: 1, ipv6Prefix: 64 }),
    ).toBeNull()
  })
})
