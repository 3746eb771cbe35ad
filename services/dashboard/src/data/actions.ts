/** What an operator can do from the page: what is asked for, and the request that it comes to. */
import type { PolicyReply, RegionReply } from '../../../../shared/protocol/admin-replies.ts'
import type { EmergencyReply } from '../../../../shared/protocol/emergency.ts'
import { documentOf } from '../../../../shared/protocol/policy-document.ts'
import type { Api, Change } from './admin-calls.ts'
import type { Needs } from './caller.ts'

export interface Field {
  readonly name: string
  readonly label: string
  readonly kind: 'text' | 'number' | 'choice'
  readonly value: string
  readonly options?: readonly (readonly [value: string, name: string])[]
  readonly help?: string
  readonly isOptional?: boolean
}

export type Values = Readonly<Record<string, string>>

export interface Action extends Needs {
  readonly title: string
  readonly says: string
  readonly fields: readonly Field[]
  /** The request; `api` is for reading what it is based on. */
  readonly change: (values: Values, reason: string, api: Api) => Change | Promise<Change>
}

const FOR: Field = {
  name: 'for',
  label: 'For',
  kind: 'choice',
  value: '3600',
  options: [
    ['900', '15 minutes'],
    ['3600', '1 hour'],
    ['21600', '6 hours'],
    ['86400', '1 day'],
    ['604800', '7 days'],
  ],
  help: 'It ends by itself.',
}

const HAS_BURST: readonly string[] = ['token_bucket', 'leaky_bucket']

/** Changes the numbers of a limit for good. */
export function editLimit(policy: PolicyReply, limit: PolicyReply['limits'][number]): Action {
  const burst: Field = {
    name: 'burst',
    label: 'Burst',
    kind: 'number',
    value: limit.burstFollowsCapacity ? '' : String(limit.burst),
    help: 'Empty: as much as the capacity.',
    isOptional: true,
  }
  const split = Object.entries(limit.split).map(
    ([region, weight]): Field => ({
      name: `split.${region}`,
      label: `Part of ${region}, %`,
      kind: 'number',
      value: String(weight),
    }),
  )
  return {
    title: `Edit ${policy.domain}/${policy.name}, ${limit.name}`,
    says: 'Changes the policy for good. Keys keep what they have spent.',
    scope: 'quota:write',
    fields: [
      { name: 'capacity', label: 'Capacity', kind: 'number', value: String(limit.capacity) },
      ...(HAS_BURST.includes(limit.algorithm) ? [burst] : []),
      ...split,
    ],
    change(values, reason) {
      const numbers = {
        ...limit,
        capacity: Number(values['capacity']),
        burst: Number(values['burst'] || limit.burst),
        burstFollowsCapacity: HAS_BURST.includes(limit.algorithm)
          ? !values['burst']
          : limit.burstFollowsCapacity,
        split: Object.fromEntries(
          Object.keys(limit.split).map((region) => [region, Number(values[`split.${region}`])]),
        ),
      }
      const limits = policy.limits.map((one) => (one.name === limit.name ? numbers : one))
      const body = documentOf({ ...policy, limits })
      return { method: 'PUT', path: pathOf(policy), body, ifMatch: policy.revision, reason }
    },
  }
}

/** Starts the counters of a limit anew; rests on the policy as it is shown. */
export function resetLimit(policy: PolicyReply, limit: PolicyReply['limits'][number]): Action {
  return {
    title: `Reset ${policy.domain}/${policy.name}, ${limit.name}`,
    says: 'Every key has nothing spent of this limit, in every region. It cannot be undone.',
    scope: 'quota:write',
    fields: [],
    change: (_values, reason) => ({
      method: 'POST',
      path: `${pathOf(policy)}/reset`,
      body: { limit: limit.name },
      ifMatch: policy.revision,
      reason,
    }),
  }
}

const EMERGENCIES = {
  block: ['Block', 'Denies this tenant everything, for a time.'],
  allow: ['Allow', 'Lets this tenant pass without a limit, for a time.'],
  multiply: ['Multiply', 'Multiplies the limit, for a time.'],
  fix: ['Fix', 'Puts another number in place of the limit, for a time.'],
  freeze: ['Freeze loans', 'Keeps loans as they are, for a time.'],
  pin: ['Pin split', 'Gives each region its part and no more, for a time.'],
} as const satisfies Readonly<Record<EmergencyReply['kind'], readonly [string, string]>>

export type EmergencyKind = EmergencyReply['kind']

export function emergencyName(kind: EmergencyKind): string {
  return EMERGENCIES[kind][0]
}

/** An action that ends by itself and edits no policy. */
export function emergency(
  kind: EmergencyKind,
  about: {
    readonly domain: string
    readonly policy: string
    readonly limit: string | null
    readonly value: string
    /** Those that the split of the limit names. */
    readonly regions: readonly string[]
  },
): Action {
  const { domain, policy, limit } = about
  const parts = kind === 'pin' && limit !== null ? pinnedParts(about.regions) : []
  const [name, says] = EMERGENCIES[kind]
  const isOfTenant = kind === 'block' || kind === 'allow'
  const own: readonly Field[] = isOfTenant
    ? [{ name: 'value', label: 'Tenant', kind: 'text', value: about.value }]
    : kind === 'multiply'
      ? [{ name: 'factor', label: 'Factor', kind: 'number', value: '2' }]
      : kind === 'fix'
        ? [{ name: 'capacity', label: 'Capacity', kind: 'number', value: '' }]
        : parts
  return {
    title: `${name}: ${domain}/${policy}${limit === null || isOfTenant ? '' : `, ${limit}`}`,
    says,
    scope: 'quota:write',
    fields: [...own, FOR],
    change: (values, reason) => ({
      method: 'POST',
      path: '/v1/emergency-actions',
      body: {
        kind,
        domain,
        policy,
        ...(isOfTenant && { value: values['value'] }),
        ...(!isOfTenant && limit !== null && { limit }),
        ...(kind === 'multiply' && { factor: Number(values['factor']) }),
        ...(kind === 'fix' && { capacity: Number(values['capacity']) }),
        ...splitOf(parts, values),
        reason,
        ttlSeconds: Number(values['for']),
      },
    }),
  }
}

/** A part of each region to pin it to, which may all be left out. */
function pinnedParts(regions: readonly string[]): readonly Field[] {
  return regions.map((region, i) => ({
    name: `split.${region}`,
    label: `Part of ${region}, %`,
    kind: 'number',
    value: '',
    isOptional: true,
    ...(i === 0 && { help: 'All empty: the parts that they have.' }),
  }))
}

function splitOf(parts: readonly Field[], values: Values): { split?: Record<string, number> } {
  const given = parts.flatMap(({ name }) =>
    values[name] ? [[name.slice('split.'.length), Number(values[name])] as const] : [],
  )
  return given.length === 0 ? {} : { split: Object.fromEntries(given) }
}

export function endEmergency({ id, kind, domain, policy }: EmergencyReply): Action {
  return {
    title: `End: ${emergencyName(kind)}, ${domain}/${policy}`,
    says: 'The policy is in force again as it is written.',
    scope: 'quota:write',
    fields: [],
    change: (_values, reason) => ({
      method: 'DELETE',
      path: `/v1/emergency-actions/${id}?domain=${encodeURIComponent(domain)}`,
      reason,
    }),
  }
}

const DRAIN_FOR: Field = {
  ...FOR,
  options: [...(FOR.options ?? []), ['', 'until it is resumed']],
  help: 'Then it resumes by itself.',
}

export function moveRegion(region: RegionReply, verb: 'drain' | 'resume'): Action {
  return {
    title: verb === 'drain' ? `Drain ${region.id}` : `Resume ${region.id}`,
    says:
      verb === 'drain'
        ? 'Moves its part of every limit to the other regions. Its callers go on by loans.'
        : 'Moves back what the splits give it.',
    scope: 'quota:admin',
    isOfPlane: true,
    fields: verb === 'drain' ? [DRAIN_FOR] : [],
    change: (values, reason) => ({
      method: 'POST',
      path: `/v1/regions/${encodeURIComponent(region.id)}/${verb}`,
      ...(values['for'] && { body: { ttlSeconds: Number(values['for']) } }),
      ifMatch: region.revision,
      reason,
    }),
  }
}

/** Rests on what is in force when the plan is made: what comes between is refused. */
export function rollBack(revision: number): Action {
  return {
    title: `Roll back to revision ${revision}`,
    says: 'Brings policies and overrides back to what was in force at that revision, as a new revision.',
    scope: 'quota:write',
    isOfPlane: true,
    fields: [],
    async change(_values, reason, api) {
      const { items } = await api.get<{ items: { revision: number }[] }>('/v1/revisions?limit=1')
      const path = `/v1/revisions/${revision}/rollback`
      return { method: 'POST', path, body: {}, ifMatch: items[0]?.revision ?? 0, reason }
    },
  }
}

function pathOf({ domain, name }: Pick<PolicyReply, 'domain' | 'name'>): string {
  return `/v1/domains/${encodeURIComponent(domain)}/policies/${encodeURIComponent(name)}`
}
