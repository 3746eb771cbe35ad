import type { PolicyReply, SharesReply } from '../../../../shared/protocol/admin-replies.ts'
import type { ViewProps } from '../app.tsx'
import { editLimit, emergency, resetLimit } from '../data/actions.ts'
import { descriptorOf, tenantOf } from '../data/key-entries.ts'
import type { KeyShares, LimitShares } from '../data/live-state.ts'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { heardAges, silentOf } from '../data/sums.ts'
import { whyDenied } from '../data/why.ts'
import { ActionButton, useAction } from '../parts/action-button.tsx'
import { EmergencyTable } from '../parts/emergency-table.tsx'
import { type Aged, Freshness, useIsStale, useNowMs } from '../parts/freshness.tsx'
import { limitsLine } from './policies.tsx'
import { Split } from './split.tsx'
import { UsageHistory } from './usage-history.tsx'

type PolicyLimit = PolicyReply['limits'][number]

/** One policy: how its limit is split at present, who lends to whom, and what was admitted and denied. */
export function PolicyPage(
  props: ViewProps & { readonly domain: string; readonly policy: string },
) {
  const { api, route, live, domain, policy } = props
  const path = `/v1/domains/${encodeURIComponent(domain)}/policies/${encodeURIComponent(policy)}`
  const described = usePoll<PolicyReply>(api, path, 2_000)
  const limits = described.data?.limits ?? []
  const limit = limits.find((one) => one.name === route.query.get('limit')) ?? limits[0]
  const hot = limit && live.shares.get(limit.id)
  const asked = route.query.get('key')
  const found = useKeyShares(props, limit, asked, hot)
  const isStale = useIsStale([found.age])
  const linkFor = (changed: Readonly<Record<string, string | null>>): string =>
    linkTo('policies', [domain, policy], { ...Object.fromEntries(route.query), ...changed })
  return (
    <div class={isStale ? 'stale' : undefined}>
      <div class="head">
        <h1>
          {domain} / {policy}
        </h1>
        <Freshness of={[described, found.age]} />
      </div>
      {described.data && <About policy={described.data} />}
      {described.data && limit && (
        <LimitView
          {...props}
          {...{ limits, limit, hot, asked, found, linkFor }}
          policyReply={described.data}
        />
      )}
    </div>
  )
}

interface FoundShares {
  readonly shares: KeyShares | null
  readonly at: string
  readonly age: Aged
}

/** A limit of the policy: the split of the key that is chosen, why it is denied, and usage over time. */
function LimitView(
  props: ViewProps & {
    readonly domain: string
    readonly policy: string
    readonly policyReply: PolicyReply
    readonly limits: readonly PolicyLimit[]
    readonly limit: PolicyLimit
    readonly hot: LimitShares | undefined
    readonly asked: string | null
    readonly found: FoundShares
    readonly linkFor: (changed: Readonly<Record<string, string | null>>) => string
  },
) {
  const { limits, limit, hot, asked, found, linkFor } = props
  const { shares } = found
  const chosen = asked ?? shares?.key ?? null
  const ages = heardAges(props.live, useNowMs(1_000))
  const members = [...ages.keys()]
  return (
    <>
      <Choices {...{ limits, limit, hot, linkFor, chosen }} />
      {shares !== null && <Reason {...props} shares={shares} silent={silentOf(ages)} />}
      <Actions {...props} chosen={chosen} />
      <EmergencyTable {...props} actions={props.policyReply.emergency} />
      {shares === null ? (
        <p class="hint">
          {asked === null
            ? 'No key is hot: every region decides by its base.'
            : `${asked} is not hot now: every region decides it by its base.`}
        </p>
      ) : (
        <Split
          key={`${limit.id} ${shares.key}`}
          capacity={limit.capacity}
          {...(limit.windowMs !== undefined && { windowMs: limit.windowMs })}
          members={members}
          ages={ages}
          shares={shares}
          at={found.at}
        />
      )}
      <UsageHistory {...props} members={members} limitName={limit.name} keyName={asked} />
    </>
  )
}

/** The shares of one key: of the stream where it has them, asked for by name where it has not. */
function useKeyShares(
  props: ViewProps & { readonly domain: string; readonly policy: string },
  limit: PolicyLimit | undefined,
  asked: string | null,
  hot: LimitShares | undefined,
): FoundShares {
  const { api, live, domain, policy } = props
  const told = asked === null ? hot?.keys[0] : hot?.keys.find(({ key }) => key === asked)
  const query = new URLSearchParams({ domain, policy, keys: '1', key: asked ?? '' })
  const isNeeded = told === undefined && asked !== null && limit !== undefined
  const polled = usePoll<SharesReply>(api, isNeeded ? `/v1/shares?${query}` : null, 1_000)
  if (told !== undefined || !isNeeded) {
    return { shares: told ?? null, at: live.regions?.at ?? '', age: live }
  }
  const named = polled.data?.limits.find(({ limitId }) => limitId === limit.id)
  return { shares: named?.keys[0] ?? null, at: polled.data?.at ?? '', age: polled }
}

function About({ policy }: { readonly policy: PolicyReply }) {
  return (
    <div class="about">
      <p>
        <strong>{limitsLine(policy)}</strong>, {policy.mode}
        {policy.shadow && ', shadow: counts and denies nothing'}, when Redis is away:{' '}
        {policy.onStoreFailure}. Revision {policy.revision}.
      </p>
      {policy.description !== '' && <p>{policy.description}</p>}
      {policy.warnings.map((warning) => (
        <p class="problem" key={warning.field}>
          {warning.field}: {warning.message}
          {warning.fix && ` ${warning.fix}`}
        </p>
      ))}
    </div>
  )
}

const EMERGENCIES = [
  ['block', 'Block a tenant'],
  ['allow', 'Allow a tenant'],
  ['multiply', 'Multiply'],
  ['fix', 'Fix'],
  ['freeze', 'Freeze loans'],
  ['pin', 'Pin split'],
] as const

function Actions(
  props: Pick<ViewProps, 'api' | 'caller'> & {
    readonly policyReply: PolicyReply
    readonly limit: PolicyLimit
    readonly chosen: string | null
  },
) {
  const { api, caller, policyReply: policy, limit, chosen } = props
  const value = chosen === null ? '' : tenantOf(policy, chosen)
  const regions = Object.keys(limit.split)
  const about = { domain: policy.domain, policy: policy.name, limit: limit.name, value, regions }
  const { begin, dialog } = useAction(api, caller)
  return (
    <fieldset class="buttons">
      <legend class="visually-hidden">Actions on this policy</legend>
      <ActionButton name="Edit limit" onClick={() => begin(editLimit(policy, limit))} />
      {EMERGENCIES.map(([kind, name]) => (
        <ActionButton key={kind} name={name} onClick={() => begin(emergency(kind, about))} />
      ))}
      <ActionButton name="Reset limit" onClick={() => begin(resetLimit(policy, limit))} />
      {dialog}
    </fieldset>
  )
}

function Choices(props: {
  readonly limits: readonly PolicyLimit[]
  readonly limit: PolicyLimit
  readonly hot: LimitShares | undefined
  readonly chosen: string | null
  readonly linkFor: (changed: Readonly<Record<string, string | null>>) => string
}) {
  const { limits, limit, hot, chosen, linkFor } = props
  const go = (changed: Readonly<Record<string, string | null>>): void => {
    location.hash = linkFor(changed)
  }
  const keys = hot?.keys ?? []
  const isListed = keys.some(({ key }) => key === chosen)
  return (
    <div class="choices">
      {limits.length > 1 && (
        <label>
          Limit
          <select
            value={limit.name}
            onChange={(event) => go({ limit: event.currentTarget.value, key: null })}
          >
            {limits.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </label>
      )}
      <label>
        Key
        <select value={chosen ?? ''} onChange={(event) => go({ key: event.currentTarget.value })}>
          {!isListed && <option value={chosen ?? ''}>{chosen ?? 'none is hot'}</option>}
          {keys.map(({ key }) => (
            <option key={key}>{key}</option>
          ))}
        </select>
      </label>
      {hot !== undefined && hot.keysLeftOut > 0 && (
        <a href={linkTo('keys', [], { search: '' })}>{hot.keysLeftOut} more hot keys</a>
      )}
    </div>
  )
}

/** Why the key is denied, where it is. */
function Reason(props: {
  readonly domain: string
  readonly policy: string
  readonly limit: PolicyLimit
  readonly shares: KeyShares
  readonly silent: readonly string[]
  readonly policyReply: PolicyReply
}) {
  const { domain, policy, limit, shares, silent, policyReply } = props
  const denying = shares.regions.filter(({ isHungry }) => isHungry)
  if (denying.length === 0) return null
  const item = {
    ...{ domain, policy, limit: limit.name, key: shares.key, isHungry: true },
    capacity: limit.capacity,
    windowMs: limit.windowMs ?? 1_000,
  }
  const actions = policyReply.emergency
  return (
    <p class="reason">
      <strong>Denied in {denying.map(({ region }) => region).join(', ')}.</strong>{' '}
      {whyDenied(item, { shares, silent, actions })}{' '}
      <a href={linkTo('explain', [], { domain, descriptor: descriptorOf(shares.key) })}>Explain</a>
    </p>
  )
}
