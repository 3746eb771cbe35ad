import { grouped, percent, table } from '../table.ts'
import type { ReplayReport, ReplayResult } from './replay.ts'
import type { ShiftReport, ShiftResult } from './shift.ts'

/** A load under this part of the plan is worth a word: the figures say little about a limit that was hardly met. */
const OFFERED_MIN = 0.95

/** Figures and one plain sentence at the end of the demo. */
export function summariseShift(
  { report, failed, planned }: ShiftResult,
  regions: readonly string[],
): string {
  const followed =
    report.convergenceMs === null ? 'not within the run' : `${report.convergenceMs} ms`
  const lines = table(
    ['', ''],
    [
      ['checks answered', grouped(report.checks)],
      ...failedRow(failed),
      ['admitted beyond the limit', grouped(report.overshoot)],
      [
        'most admitted in any second',
        `${grouped(report.admittedMaxPerSecond)} (limit ${grouped(report.limit)}, and a burst)`,
      ],
      ['admitted by region, before', percents(report.splitBefore, regions)],
      ['admitted by region, after', percents(report.splitAfter, regions)],
      ['time to follow the turn', followed],
      ['of what one perfect limiter admits', percent(report.utilisation)],
      ['time of a check, half / 99 %', `${report.checkP50Ms} ms / ${report.checkP99Ms} ms`],
    ],
  )
  return [
    ...lines.slice(1),
    ...slowNote(report.checks + failed, planned),
    '',
    shiftSentence(report),
  ].join('\n')
}

/** The same for a replay. */
export function summariseReplay({ report, failed }: ReplayResult): string {
  const byRegion = table(
    ['region', '>requests', '>admitted', '>denied'],
    report.regions.map(({ region, offered, admitted, denied }) => [
      region,
      grouped(offered),
      grouped(admitted),
      grouped(denied),
    ]),
  )
  const figures = table(
    ['', ''],
    [
      ...failedRow(failed),
      ...report.limits.map(({ name, overshoot }) => [
        `admitted beyond the limit "${name}"`,
        grouped(overshoot),
      ]),
      ['of what one perfect limiter admits', percent(report.utilisation)],
      ['time of a check, half / 99 %', `${report.checkP50Ms} ms / ${report.checkP99Ms} ms`],
    ],
  )
  return [...byRegion, '', ...figures.slice(1), '', replaySentence(report)].join('\n')
}

function shiftSentence(report: ShiftReport): string {
  if (report.overshoot > 0) {
    return `The limit was exceeded: ${grouped(report.overshoot)} checks too many were admitted. This is a bug; please report it.`
  }
  const followed =
    report.convergenceMs === null
      ? 'but the capacity did not follow the load within this run'
      : `and the capacity followed the load ${seconds(report.convergenceMs)} after it moved`
  return `The regions together never admitted more than their one limit allows, ${followed}, with ${percent(report.utilisation)} of it put to use and no call between regions on any check.`
}

function replaySentence(report: ReplayReport): string {
  const { regions, clients, overshoot } = report
  if (overshoot > 0) {
    return `A limit was exceeded by ${grouped(overshoot)}. This is a bug; please report it.`
  }
  const denied = regions.reduce((sum, region) => sum + region.denied, 0)
  return `Of ${grouped(report.checks)} recorded requests of ${grouped(clients)} clients, ${grouped(denied)} were turned away, and neither any client's limit nor the limit over all was ever exceeded, although ${regions.length} regions decided each on its own.`
}

/** On a machine that is too busy the figures are true, and about less than was announced. */
function slowNote(offered: number, planned: number): string[] {
  if (offered >= OFFERED_MIN * planned) return []
  const part = percent(offered / planned)
  return ['', `This machine was too busy to offer more than ${part} of the planned checks.`]
}

function failedRow(failed: number): string[][] {
  return failed === 0 ? [] : [['checks without a usable answer', grouped(failed)]]
}

function percents(split: readonly number[], regions: readonly string[]): string {
  return regions.map((region, i) => `${region} ${split[i] ?? 0} %`).join(', ')
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
