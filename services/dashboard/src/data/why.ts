/** Says in a sentence why a key is denied, of what is known here. */
import type { EmergencyReply } from '../../../../shared/protocol/emergency.ts'
import type { UsageTopReply } from '../../../../shared/protocol/reading-replies.ts'
import { compact, windowName } from './format.ts'
import type { KeyShares } from './live-state.ts'

type TopItem = Pick<
  UsageTopReply['items'][number],
  'domain' | 'policy' | 'limit' | 'key' | 'capacity' | 'windowMs' | 'isHungry'
>

export interface Known {
  /** Of the key at present; null while it is not hot. */
  readonly shares: KeyShares | null
  readonly silent: readonly string[]
  readonly actions: readonly EmergencyReply[]
}

export function whyDenied(item: TopItem, known: Known): string {
  const action = known.actions.find((one) => isAbout(one, item))
  if (action?.kind === 'block') return `blocked by an operator: ${action.reason}`
  const under =
    action === undefined ? '' : ` An operator's ${action.kind} is in force: ${action.reason}.`
  if (item.capacity === 0) return `the policy lets nothing through.${under}`
  return `${reasonOf(item, known)}${under}`
}

function reasonOf(item: TopItem, { shares, silent }: Known): string {
  const limit = `${compact(item.capacity)} a ${windowName(item.windowMs)}`
  if (shares === null) return `It was over its limit of ${limit}, and is not at present.`
  const perSecond = (1_000 * item.capacity) / item.windowMs
  const heard = shares.regions.filter(({ region }) => !silent.includes(region))
  const [hungry] = heard.filter((one) => one.isHungry)
  if (silent.length > 0) {
    const away = silent.join(', ')
    if (hungry !== undefined) return `${wanting(hungry)}: ${away} cannot lend while cut off.`
    return `${away} cannot be heard from here: a region that is cut off has its base and no loans.`
  }
  const asked = heard.reduce((sum, one) => sum + one.demandPerSecond, 0)
  if (asked > perSecond) {
    return `All regions together ask for ${compact(Math.round(asked))} a second, and the limit is ${limit}.`
  }
  if (hungry === undefined) return `It was over its limit of ${limit}, and has what it needs now.`
  return `${wanting(hungry)}; the others lend what they do not need.`
}

function wanting({ region, demandPerSecond, share }: KeyShares['regions'][number]): string {
  const asked = compact(Math.round(demandPerSecond))
  return `${region} asks for ${asked} a second and has a share of ${compact(share.tokens)}`
}

function isAbout(action: EmergencyReply, item: TopItem): boolean {
  if (action.domain !== item.domain || action.policy !== item.policy) return false
  if (action.value !== undefined)
    return item.key.split(',').some((entry) => entry.endsWith(`=${action.value}`))
  if (action.kind === 'freeze' || action.kind === 'pin') return item.isHungry
  return action.limit === undefined || action.limit === item.limit
}
