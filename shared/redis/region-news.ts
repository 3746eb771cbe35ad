/**
 * What scripts tell the enforcers of their region while it happens (`tell` in `lua/_prelude.lua`).
 *
 * A message is told at most once. What would make a lost one harmful ends with the connection, of which the listener is
 * told, or by itself within a second.
 */
import type { Redis } from 'ioredis'
import type { NewsListener } from '../core/ports.ts'
import { NEWS_CHANNEL } from './keys.ts'

const GROWN = '+'
const POLICIES = 'p'

/** Listens on a connection of its own, which `createRedis` made and which does nothing else. */
export function listenForNews(redis: Redis, listener: NewsListener): void {
  redis.on('message', (channel: string, message: string) => {
    if (channel !== NEWS_CHANNEL) return
    if (message.startsWith(GROWN)) listener.grown(message.slice(GROWN.length))
    else if (message === POLICIES) listener.policiesChanged()
  })
  redis.on('close', () => listener.silent())
  redis.on('ready', () => {
    // A refusal (a user without the right to) leaves it silent; a break is told by `close`.
    redis.subscribe(NEWS_CHANNEL).then(
      () => listener.heard(),
      () => listener.silent(),
    )
  })
}
