import type { RegionReply } from '../../../../shared/protocol/admin-replies.ts'
import type { LagsReply } from '../../../../shared/protocol/reading-replies.ts'
import { moveRegion } from '../data/actions.ts'
import type { Api } from '../data/admin-calls.ts'
import type { Caller } from '../data/caller.ts'
import { age, compact } from '../data/format.ts'
import type { LiveState } from '../data/live-state.ts'
import { isSilent } from '../data/sums.ts'
import { ActionButtons } from './action-buttons.tsx'
import { Status, type Tone } from './status.tsx'

/** Records come each second; with a long way between regions still well within this. */
const LATE_AFTER_MS = 3_000

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
  const pairs = live.regions?.pairs.filter((pair) => pair.to === region.region) ?? []
  const [tone, word] = stateOf(region, ageMs, stored)
  const verb = stored?.state === 'active' ? 'drain' : 'resume'
  return (
    <li class="column">
      <h3>{region.region}</h3>
      <Status tone={tone}>{word}</Status>
      {stored?.move && <Move region={stored} move={stored.move} />}
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
        {pairs.map((pair) => (
          <LagLine key={pair.from} from={pair.from} lagMs={isCut ? undefined : pair.lagMs} />
        ))}
      </dl>
      {stored && stored.state !== 'removing' && (
        <p class="buttons">
          <ActionButtons
            {...{ api, caller }}
            about={region.region}
            actions={[[verb === 'drain' ? 'Drain' : 'Resume', () => moveRegion(stored, verb)]]}
          />
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

function LagLine(props: {
  readonly from: string
  /** Undefined where it is not known here. */
  readonly lagMs: number | null | undefined
}) {
  const { from, lagMs } = props
  if (lagMs === undefined) {
    return (
      <>
        <dt>Lag to {from}</dt>
        <dd>–</dd>
      </>
    )
  }
  const isLate = lagMs === null || lagMs > LATE_AFTER_MS
  return (
    <>
      <dt>Lag to {from}</dt>
      <dd>
        {isLate ? (
          <Status tone="bad">{lagMs === null ? 'not heard' : age(lagMs)}</Status>
        ) : (
          `${lagMs} ms`
        )}
      </dd>
    </>
  )
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
