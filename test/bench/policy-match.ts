/**
 * Matching a descriptor among 10,000 policies of all kinds beside matching it among 10: a ratio of 1 is what is
 * promised. Half of the policies name a value, half a wildcard; the bare key is the last resort.
 */
import type { Descriptor } from '../../shared/core/descriptor.ts'
import { buildPolicyIndex, matchPolicy, type PolicyIndex } from '../../shared/core/policy-index.ts'
import { aRegionPolicy } from '../support/region-policy.ts'
import type { Contest } from './measure.ts'

const MANY = 10_000
const FEW = 10
const MATCHES = 500_000

/** An exact value, a wildcard and the bare key in turn; all are found among the few, too. */
const ASKED = ['acme-2', 'acme-3-eu', 'other'].map(descriptorOf)

export function policyMatch(): Promise<{ contest: Contest; stop(): Promise<void> }> {
  const [many, few] = [indexOf(MANY), indexOf(FEW)]
  return Promise.resolve({
    contest: {
      name: 'policy-match',
      unit: 'matches/s',
      peerName: `among ${FEW} policies`,
      ours: () => Promise.resolve(perSecond(many)),
      peer: () => Promise.resolve(perSecond(few)),
    },
    stop: () => Promise.resolve(),
  })
}

function indexOf(count: number): PolicyIndex {
  const policies = Array.from({ length: count }, (_, id) =>
    aRegionPolicy({ id: id + 1, revision: id + 1, match: [entryOf(id)] }),
  )
  return buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
}

function entryOf(id: number) {
  if (id === 0) return { key: 'tenant' }
  return { key: 'tenant', value: id % 2 === 0 ? `acme-${id}` : `acme-${id}-*` }
}

function perSecond(index: PolicyIndex): number {
  const beganMs = performance.now()
  for (let turn = 0; turn < MATCHES; turn++) {
    for (const descriptor of ASKED) matchPolicy(index, 'api', descriptor)
  }
  return (MATCHES * ASKED.length * 1_000) / (performance.now() - beganMs)
}

function descriptorOf(value: string): Descriptor {
  return { entries: [{ key: 'tenant', value }] }
}
