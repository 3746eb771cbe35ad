import { expect, vi } from 'vitest'
import type { AdminClient } from '../../services/cli/admin-client.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'
import type { PolicyInput } from '../../shared/protocol/policy.ts'
import { type RolloutReply, rolloutReplySchema } from '../../shared/protocol/rollout-reply.ts'

export function withCapacity(document: PolicyInput, capacity: number): PolicyInput {
  return { ...document, limits: document.limits.map((limit) => ({ ...limit, capacity })) }
}

/** The limit by which an enforcer of `region` decides what the policy is for; reads without spending. */
export async function decidingBy(
  plane: Plane,
  region: string | undefined,
  { domain, match }: PolicyInput,
): Promise<number> {
  const found = plane.regions.find((one) => one.region === region)
  const descriptors = [{ entries: match }]
  const response = await fetch(`${found?.enforcers[0]?.url}/v1/check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ domain, descriptors, cost: 0 }),
  })
  return JSON.parse(await response.text()).decisions[0].limit
}

/** What admin says of a rollout again and again, until it says what is waited for. */
export async function untilRollout(
  client: AdminClient,
  revision: number,
  isEnough: (rollout: RolloutReply) => boolean,
): Promise<readonly RolloutReply[]> {
  const said: RolloutReply[] = []
  await vi.waitFor(
    async () => {
      const answer = await client.call({ method: 'GET', path: `/v1/rollouts/${revision}` })
      const rollout = rolloutReplySchema.parse(answer.body)
      said.push(rollout)
      expect(isEnough(rollout), JSON.stringify(rollout)).toBe(true)
    },
    { timeout: 20_000, interval: 20 },
  )
  return said
}
