import type { View } from '../output.ts'
import { grouped, percent, table } from '../table.ts'
import type { CheckCounts } from './checks.ts'
import type { Outcome, Tally } from './tally.ts'
import type { SplitModel } from './twin-plane.ts'

export interface SimulationAbout extends CheckCounts {
  readonly trace: string
  readonly domain: string
  readonly model: SplitModel
  readonly hasPresent: boolean
  readonly keys: number
}

const HEADERS = ['', '>checks', '>before', '>after', '>newly denied', '>newly allowed']

/** What the change would have done, in all, by region, by limit and by key. */
export function simulationView(tally: Tally, about: SimulationAbout): View {
  const regions = [...tally.regions].sort(([one], [other]) => (one < other ? -1 : 1))
  const keys = tally.topKeys(about.keys)
  const limits = [...tally.limits].sort(([one], [other]) => (one < other ? -1 : 1))
  const at = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())
  const data = {
    ...about,
    from: at(tally.firstMs),
    to: at(tally.lastMs),
    unmatched: tally.unmatched,
    total: tally.total,
    regions: regions.map(([region, outcome]) => ({ region, ...outcome })),
    denials: limits.map(([limit, denials]) => ({ limit, ...denials })),
    keys: keys.map(([key, outcome]) => ({ key, ...outcome })),
    areKeysWhole: !tally.hasForgotten,
  }
  const rowOf = ([name, outcome]: readonly [string, Outcome]): readonly string[] => [
    name,
    grouped(outcome.checks),
    about.hasPresent ? admitted(outcome, outcome.allowedBefore) : '-',
    admitted(outcome, outcome.allowedAfter),
    grouped(outcome.newlyDenied),
    grouped(outcome.newlyAllowed),
  ]
  return {
    data,
    names: limits.map(([limit]) => `${about.domain}/${limit.split('/')[0]}`),
    headers: HEADERS,
    rows: [...regions.map(rowOf), rowOf(['together', tally.total])],
    notes: [
      ...section(
        'denied by',
        ['limit', '>before', '>after'],
        limits.map(([limit, { before, after }]) => [limit, grouped(before), grouped(after)]),
      ),
      ...section('keys', ['key', ...HEADERS.slice(1)], keys.map(rowOf)),
      '',
      ...notesOf(tally, about, data),
    ],
  }
}

function admitted({ checks }: Outcome, allowed: number): string {
  return `${grouped(allowed)} (${percent(checks === 0 ? 1 : allowed / checks)})`
}

function section(
  title: string,
  headers: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  return rows.length === 0 ? [] : ['', `${title}:`, ...table(headers, rows)]
}

function notesOf(
  tally: Tally,
  { skipped, late, model, hasPresent }: SimulationAbout,
  { from, to }: { readonly from: string | null; readonly to: string | null },
): readonly string[] {
  const models: Readonly<Record<SplitModel, string>> = {
    whole: 'as if one limiter held all of each limit; regions come to that by lending',
    split: 'as if each region had its base and nothing were lent',
  }
  return [
    `${from} to ${to}, ${models[model]}`,
    ...(hasPresent ? [] : ['"before" is without any limit']),
    ...(tally.unmatched > 0 ? [`${grouped(tally.unmatched)} checks met no policy`] : []),
    ...(skipped > 0 ? [`${grouped(skipped)} lines held no request that could be checked`] : []),
    ...(late > 0
      ? [`${grouped(late)} requests were out of order, and counted as a little later`]
      : []),
    ...(tally.hasForgotten
      ? ['there were too many keys to tell all apart: those shown may count too little']
      : []),
  ]
}
