import type { RegionReply } from '../../../../shared/protocol/admin-replies.ts'
import type { EmergencyReply } from '../../../../shared/protocol/emergency.ts'
import type { LagsReply, UsageTopReply } from '../../../../shared/protocol/reading-replies.ts'
import type { ViewProps } from '../app.tsx'
import { usePoll } from '../data/poll.ts'
import { linkTo } from '../data/route.ts'
import { heardAges, silentOf } from '../data/sums.ts'
import { DeniedKeys } from '../parts/denied-keys.tsx'
import { EmergencyTable } from '../parts/emergency-table.tsx'
import { Freshness, useIsStale, useNowMs } from '../parts/freshness.tsx'
import { Meters } from '../parts/meters.tsx'
import { RegionColumn } from '../parts/region-column.tsx'

const SLOW_MS = 2_000

/** So often it is asked who has gone silent, so that a cut shows within its three seconds. */
const LOOK_MS = 250

/** Is every limit held, does every region decide, and who is being denied? */
export function Overview({ api, live, caller }: ViewProps) {
  const regions = usePoll<{ items: RegionReply[] }>(api, '/v1/regions', SLOW_MS)
  const denied = usePoll<UsageTopReply>(api, '/v1/usage/top?by=denial&limit=8', SLOW_MS)
  const actions = usePoll<{ items: EmergencyReply[] }>(api, '/v1/emergency-actions', SLOW_MS)
  const isStale = useIsStale([live])
  const nowMs = useNowMs(LOOK_MS)
  const told = live.regions?.regions ?? []
  const ages = heardAges(live, nowMs)
  const silent = silentOf(ages)
  const rows = (denied.data?.items ?? []).filter((item) => item.total.denied > 0)
  return (
    <div class={isStale ? 'stale' : undefined}>
      <div class="head">
        <h1>Overview</h1>
        <Freshness of={[live]} />
      </div>
      <Meters live={live} silent={silent} />
      <p class="visually-hidden" role="status">
        {silent.length > 0 && `Cut off: ${silent.join(', ')}`}
      </p>
      <AdminState lags={live.regions} />
      <section aria-labelledby="denied">
        <h2 id="denied">Denied most in the last minute</h2>
        <DeniedKeys
          rows={rows}
          isLoaded={denied.data !== null}
          {...{ live, silent }}
          actions={actions.data?.items ?? []}
        />
        {rows.length > 0 && (
          <p>
            <a href={linkTo('keys', [], { by: 'denial' })}>All keys by denials</a>
          </p>
        )}
      </section>
      <section aria-labelledby="regions">
        <h2 id="regions">Regions</h2>
        <ul class="columns">
          {told.map((region) => (
            <RegionColumn
              key={region.region}
              {...{ api, caller, live, region }}
              ageMs={ages.get(region.region) ?? null}
              stored={regions.data?.items.find(({ id }) => id === region.region)}
            />
          ))}
        </ul>
      </section>
      <EmergencyTable {...{ api, caller }} actions={actions.data?.items ?? []} />
    </div>
  )
}

/** Said only when something of this admin is away, since that explains what else is missing. */
function AdminState({ lags }: { readonly lags: LagsReply | null }) {
  if (lags === null) return null
  const down = [
    lags.admin.bus === 'down' && 'NATS: no region can be heard here',
    lags.admin.database === 'down' &&
      'Postgres: nothing can be changed, and policies cannot be read',
  ].filter((one) => one !== false)
  return down.length === 0 ? null : <p class="problem">This admin has lost {down.join('; ')}.</p>
}
