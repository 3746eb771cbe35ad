/** What a node of a Redis Cluster says of all nodes (CLUSTER NODES). */

export interface ClusterNode {
  /** `host:port`. */
  readonly address: string
  readonly isMaster: boolean
  /** First and last of each range of slots that it owns. */
  readonly ranges: readonly (readonly [number, number])[]
}

/** Nodes that can be reached; a node without an address of its own (it knows none) is at `askedAt`. */
export function parseClusterNodes(text: string, askedAt: string): readonly ClusterNode[] {
  return text.split('\n').flatMap((line) => {
    const [, endpoint = '', flags = '', , , , , , ...slots] = line.trim().split(' ')
    const isGone = flags === '' || /\b(handshake|noaddr|fail)\b(?!\?)/.test(flags)
    if (isGone) return []
    // ip:port@bus-port[,hostname]
    const [address = ''] = endpoint.split('@')
    const isMaster = flags.split(',').includes('master')
    const ranges = slots.flatMap((one) => parseRange(one))
    return [{ address: address.startsWith(':') ? askedAt : address, isMaster, ranges }]
  })
}

/** Slots on their way, in brackets, are owned by where they come from. */
function parseRange(text: string): (readonly [number, number])[] {
  if (text.startsWith('[')) return []
  const [first, last = first] = text.split('-').map(Number)
  return first === undefined || last === undefined ? [] : [[first, last]]
}
