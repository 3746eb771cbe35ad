import { describe, expect, it } from 'vitest'
import { SLOT_GROUP_TAGS } from '../../../shared/core/counter-id.ts'
import { parseRedisUrl } from '../../../shared/redis/address.ts'
import { parseClusterNodes } from '../../../shared/redis/cluster-nodes.ts'
import { keySlot } from '../../../shared/redis/key-slot.ts'

describe('REDIS_URL', () => {
  it.each(['redis://one', 'rediss://u:p@one:1/2', 'unix:///s.sock', '/tmp/s.sock'])(
    '%s is one server',
    (url) => {
      expect(parseRedisUrl(url)).toEqual({ kind: 'single', url })
    },
  )

  it('names nodes of a cluster, with whom to connect as and how', () => {
    expect(parseRedisUrl('rediss+cluster://me:p%40ss@one:7000,[::1]:7001,three')).toEqual({
      kind: 'cluster',
      seeds: [
        { host: 'one', port: 7_000 },
        { host: '::1', port: 7_001 },
        { host: 'three', port: 6_379 },
      ],
      access: { isTls: true, username: 'me', password: 'p@ss' },
    })
  })

  it('names sentinels and what they watch', () => {
    expect(parseRedisUrl('redis+sentinel://:secret@one:1,two/region')).toEqual({
      kind: 'sentinel',
      sentinels: [
        { host: 'one', port: 1 },
        { host: 'two', port: 26_379 },
      ],
      name: 'region',
      access: { isTls: false, password: 'secret' },
    })
  })

  it.each([
    'http://one',
    'one:6379',
    'redis+cluster://',
    'redis+cluster://one/name',
    'redis+sentinel://one',
    'redis+cluster://one:0',
    'redis+cluster://one:70000',
    'redis+cluster://one,,two',
  ])('%s is none', (url) => {
    expect(parseRedisUrl(url)).toBeNull()
  })
})

describe('the slot of a key', () => {
  it('is what Redis Cluster says', () => {
    expect(keySlot('123456789')).toBe(0x31c3)
    expect(keySlot('foo{bar}zap')).toBe(keySlot('bar'))
    expect(keySlot('foo{}{bar}')).not.toBe(keySlot('bar'))
  })

  it('spaces the slot groups evenly', () => {
    const slots = SLOT_GROUP_TAGS.map((tag) => keySlot(`c:{${tag}}1.0:tenant=acme`))
    expect(slots).toEqual(SLOT_GROUP_TAGS.map((_, group) => 512 + group * 1_024))
  })
})

it('what a node says of its cluster names masters and their slots, and none that is gone', () => {
  const text = [
    'a1 10.0.0.1:6379@16379,one myself,master - 0 0 1 connected 0-5460 6000 [93->-b2]',
    'b2 10.0.0.2:6379@16379 master,fail? - 0 0 2 connected 5461-5999',
    'c3 10.0.0.3:6379@16379 slave a1 0 0 1 connected',
    'd4 10.0.0.4:6379@16379 master,fail - 0 0 3 disconnected 7000-8000',
    'e5 :0@0 master,noaddr - 0 0 4 disconnected',
    '',
  ].join('\n')
  expect(parseClusterNodes(text, '10.0.0.1:6379')).toEqual([
    {
      address: '10.0.0.1:6379',
      isMaster: true,
      ranges: [
        [0, 5_460],
        [6_000, 6_000],
      ],
    },
    { address: '10.0.0.2:6379', isMaster: true, ranges: [[5_461, 5_999]] },
    { address: '10.0.0.3:6379', isMaster: false, ranges: [] },
  ])
})
