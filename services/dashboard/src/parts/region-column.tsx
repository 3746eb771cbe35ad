import { Fragment } from 'preact'
import type { RegionReply } from '../../../../shared/protocol/admin-replies.ts'
import type { LagsReply } from '../../../../shared/protocol/reading-replies.ts'
import { moveRegion } from '../data/actions.ts'
import type { Api } from '../data/admin-calls.ts'
import type { Caller } from '../data/caller.ts'
import { age, compact, dayAndTime } from '../data/format.ts'
import type { LiveState } from '../data/live-state.ts'
import { isSilent } from '../data/sums.ts'
import { ActionButton, useAction } from './action-button.tsx'
import { Status, type Tone } from './status.tsx'

/** Records come each second; with a long way between regions still well within this. */
const LATE_AFTER_MS = 3_000

/** Lines of one column. */
const LAGS_MAX = 8

/** Behind all others. */
const UNHEARD = Number.MAX_SAFE_INTEGER

/** Everything about one region, in one column. */
export function RegionColumn(props: {
  readonly api: Api
  readonly caller: Caller
  readonly live: LiveState
  readonly region: LagsReply['regions'][number]
  readonly ageMs: number | null
  /** What is stored of it; undefined until it was read. */
  readonly stored: RegionReply | undefined
}) {
  const { api, caller, live, region, ageMs, stored } = props
  const isCut = isSilent(ageMs)
  // What it does now is not known here: its last word is no present.
  const rate = isCut ? null : (live.rates.get(region.region) ?? { admitted: 0, denied: 0 })
  const { begin, dialog } = useAction(api, caller)
  const [tone, word] = stateOf(region, ageMs, stored)
  const verb = stored?.state === 'active' ? 'drain' : 'resume'
  return (
    <li class="column">
      <h3>{region.region}</h3>
      <Status tone={tone}>{word}</Status>
      {stored?.move && <Move region={stored} move={stored.move} />}
      {stored?.resumesAt && <p class="hint">resumes by itself at {dayAndTime(stored.resumesAt)}</p>}
      <dl>
        <dt>Admitted a second</dt>
        <dd>{rate === null ? '–' : compact(rate.admitted)}</dd>
        <dt>Denied a second</dt>
        <dd>{rate === null ? '–' : compact(rate.denied)}</dd>
        <dt>Hungry keys</dt>
        <dd>{isCut ? '–' : region.hungryKeys}</dd>
        <dt>Revision</dt>
        <dd>{region.appliedRevision ?? '–'}</dd>
        <dt>Store</dt>
        <dd>
          <Part state={region.store} />
        </dd>
        <dt>Bus</dt>
        <dd>
          <Part state={region.bus} />
        </dd>
        <Lags region={region.region} live={live} isCut={isCut} />
      </dl>
      {stored && stored.state !== 'removing' && (
        <p class="buttons">
          <ActionButton
            name={verb === 'drain' ? 'Drain' : 'Resume'}
            about={region.region}
            onClick={() => begin(moveRegion(stored, verb))}
          />
          {dialog}
        </p>
      )}
    </li>
  )
}

function Move(props: {
  readonly region: RegionReply
  readonly move: NonNullable<RegionReply['move']>
}) {
  const { region, move } = props
  return (
    <p class="hint">
      {region.state}: {move.limitsLeft === 1 ? '1 limit' : `${move.limitsLeft} limits`} left
      {move.awaited.length > 0 && `, waiting for ${move.awaited.join(', ')}`}
    </p>
  )
}

const PART_TONES: Readonly<Record<string, Tone>> = { up: 'good', recovering: 'warn' }

function Part({ state }: { readonly state: string }) {
  return <Status tone={PART_TONES[state] ?? 'bad'}>{state.replaceAll('-', ' ')}</Status>
}

/** How old its word of each other region is; of many, those furthest behind. */
function Lags(props: {
  readonly region: string
  readonly live: LiveState
  readonly isCut: boolean
}) {
  const { region, live, isCut } = props
  const pairs = (live.regions?.pairs ?? [])
    .filter((pair) => pair.to === region)
    .sort((one, other) => (other.lagMs ?? UNHEARD) - (one.lagMs ?? UNHEARD))
  const shown = pairs.length > LAGS_MAX ? pairs.slice(0, LAGS_MAX) : pairs.sort(byName)
  return (
    <>
      {shown.map(({ from, lagMs }) => (
        <Fragment key={from}>
          <dt>Lag to {from}</dt>
          <dd>{isCut ? '–' : <Lag lagMs={lagMs} />}</dd>
        </Fragment>
      ))}
      {pairs.length > LAGS_MAX && (
        <>
          <dt>Others, each less</dt>
          <dd>{pairs.length - LAGS_MAX}</dd>
        </>
      )}
    </>
  )
}

function Lag({ lagMs }: { readonly lagMs: number | null }) {
  if (lagMs === null) return <Status tone="bad">not heard</Status>
  return lagMs > LATE_AFTER_MS ? <Status tone="bad">{age(lagMs)}</Status> : <>{lagMs} ms</>
}

function byName(one: { readonly from: string }, other: { readonly from: string }): number {
  return one.from < other.from ? -1 : 1
}

function stateOf(
  region: LagsReply['regions'][number],
  ageMs: number | null,
  stored: RegionReply | undefined,
): readonly [Tone, string] {
  if (ageMs === null) return ['bad', 'not heard yet']
  if (isSilent(ageMs)) return ['bad', `cut off, last heard ${age(ageMs)} ago`]
  if (region.store === 'recovering') return ['warn', 'recovering']
  if (stored !== undefined && stored.state !== 'active') return ['warn', stored.state]
  return ['good', 'reporting']
}
