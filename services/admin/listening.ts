import type { NatsLink } from '../../shared/nats/client.ts'

/** How long `link` has been connected without a break: what was published before may have been missed. */
export function createListening(
  link: Pick<NatsLink, 'isConnected' | 'onReconnect'>,
  monotonicMs: () => number,
): () => number {
  let sinceMs = monotonicMs()
  link.onReconnect(() => {
    sinceMs = monotonicMs()
  })
  return () => (link.isConnected() ? monotonicMs() - sinceMs : 0)
}
