import { age, compact, full, percent } from '../data/format.ts'
import type { LiveState } from '../data/live-state.ts'
import { auditOf, heardAges, largestShareSum, silentOf } from '../data/sums.ts'
import { useIsStale, useNowMs } from './freshness.tsx'
import { Status } from './status.tsx'

/** Whether the limits hold and who is heard, in a line: it stands above every view that is not about that. */
export function Strip({ live }: { readonly live: LiveState }) {
  const nowMs = useNowMs(1_000)
  const isStale = useIsStale([live])
  const ages = heardAges(live, nowMs)
  const silent = silentOf(ages)
  const denied = [...live.rates.values()].reduce((all, one) => all + one.denied, 0)
  if (live.atMs === null) return <p class="strip">Loading</p>
  return (
    <p class={isStale ? 'strip stale' : 'strip'}>
      {isStale && <Status tone="bad">{`as of ${age(nowMs - live.atMs)} ago`}</Status>}
      <OverAdmission live={live} />
      <ShareSum live={live} silent={silent} />
      <Status tone={silent.length === 0 ? 'good' : 'bad'}>
        {silent.length === 0 ? `${ages.size} regions heard` : `cut off: ${silent.join(', ')}`}
      </Status>
      <span>{compact(denied)} denied a second</span>
    </p>
  )
}

function OverAdmission({ live }: { readonly live: LiveState }) {
  const audit = auditOf(live.regions?.regions ?? [])
  if (audit === null) return <Status tone="idle">not audited yet</Status>
  const isHeld = audit.overAdmitted === 0 && audit.alarms === 0
  return (
    <Status tone={isHeld ? 'good' : 'bad'}>
      {`${full(audit.overAdmitted)} tokens over a limit`}
    </Status>
  )
}

function ShareSum(props: { readonly live: LiveState; readonly silent: readonly string[] }) {
  const { live, silent } = props
  const largest = largestShareSum(live.shares.values(), silent)
  if (largest === null && silent.length > 0) {
    return <Status tone="idle">sum of shares not known</Status>
  }
  const ratio = largest?.ratio ?? 1
  return (
    <Status tone={ratio > 1 ? 'warn' : 'good'}>{`shares at ${percent(ratio)} of the limit`}</Status>
  )
}
