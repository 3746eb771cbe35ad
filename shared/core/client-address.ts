/**
 * Who sent a request, by its network address: which address to believe, and one text for what is one sender.
 *
 * An IPv6 customer owns a whole network and changes addresses in it at will, so a key is that network. An IPv4
 * address keeps its text also where it comes mapped into IPv6.
 */

/** Networks that providers give to one customer are /64 or larger; a longer prefix would split a customer. */
export const IPV6_PREFIX_MAX = 64

/** A shorter one would throw whole providers together. */
export const IPV6_PREFIX_MIN = 32

/**
 * The key of the sender's address; null when it is not known.
 *
 * `forwardedFor` is believed only as far as `trustedHops` proxies wrote it: each appends the address that it got the
 * request from, so the entries are counted from the right. Without trusted hops the peer itself is the sender. An
 * entry that is no address ends the chain: what is left of it was not written by a proxy that can be trusted.
 */
export function senderKey(options: {
  readonly peer: string | undefined
  readonly forwardedFor: string | undefined
  readonly trustedHops: number
  readonly ipv6Prefix: number
}): string | null {
  const { peer, forwardedFor, trustedHops, ipv6Prefix } = options
  let sender = peer === undefined ? null : addressKey(peer, ipv6Prefix)
  if (trustedHops === 0 || forwardedFor === undefined) return sender
  const hops = forwardedFor.split(',').slice(-trustedHops).reverse()
  for (const hop of hops) {
    const key = addressKey(withoutPort(hop.trim()), ipv6Prefix)
    if (key === null) return sender
    sender = key
  }
  return sender
}

/** One text for all spellings of an IPv4 address or of an IPv6 network; null for what is neither. */
export function addressKey(text: string, ipv6Prefix: number): string | null {
  if (parseIpv4(text) !== null) return text
  const zone = text.indexOf('%')
  const groups = parseIpv6(zone < 0 ? text : text.slice(0, zone))
  if (groups === null) return null
  const [high = 0, low = 0] = groups.slice(6)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (isMapped) return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')
  const network = groups
    .slice(0, Math.ceil(ipv6Prefix / 16))
    .map((group, index) => (group & maskOf(ipv6Prefix - index * 16)).toString(16))
  return `${network.join(':')}::/${ipv6Prefix}`
}

/** Proxies may add a port: `192.0.2.1:80`, `[2001:db8::1]:443`. */
function withoutPort(text: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d+)?$/.exec(text)
  if (bracketed !== null) return bracketed[1] ?? ''
  return /^[^:]*:\d+$/.test(text) ? text.slice(0, text.indexOf(':')) : text
}

/** The mask of a group of 16 bits of which the first `bits` count. */
function maskOf(bits: number): number {
  const kept = Math.max(0, Math.min(16, bits))
  return (0xffff << (16 - kept)) & 0xffff
}

function parseIpv4(text: string): readonly number[] | null {
  const parts = text.split('.')
  if (parts.length !== 4) return null
  // A leading zero is octal to some and not to others, so it is nobody's address.
  const isValid = parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)
  return isValid ? parts.map(Number) : null
}

/** The eight groups. */
function parseIpv6(text: string): readonly number[] | null {
  const halves = text.split('::')
  if (halves.length > 2) return null
  const [head, tail] = halves.map(parseGroups)
  if (head === undefined || head === null || tail === null) return null
  if (tail === undefined) return head.length === 8 ? head : null
  const missing = 8 - head.length - tail.length
  // "::" stands for at least one group.
  return missing < 1 ? null : [...head, ...new Array<number>(missing).fill(0), ...tail]
}

function parseGroups(text: string): readonly number[] | null {
  if (text === '') return []
  const groups: number[] = []
  const parts = text.split(':')
  for (const [index, part] of parts.entries()) {
    const ipv4 = index === parts.length - 1 ? parseIpv4(part) : null
    if (ipv4 !== null) {
      const [a = 0, b = 0, c = 0, d = 0] = ipv4
      groups.push((a << 8) | b, (c << 8) | d)
    } else if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(Number.parseInt(part, 16))
    else return null
  }
  return groups
}
