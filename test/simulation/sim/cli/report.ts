import type { Outcome } from '../run.ts'

interface Column {
  readonly head: string
  readonly width: number
  readonly text: (outcome: Outcome) => string
}

const COLUMNS: readonly Column[] = [
  { head: 'excess', width: 8, text: (one) => excessText(one.excess) },
  { head: 'utilis.', width: 7, text: (one) => one.utilisation.toFixed(3) },
  { head: 'parted', width: 7, text: (one) => one.utilisationPartitionAware.toFixed(3) },
  { head: 'conv. ms', width: 8, text: (one) => one.convergenceMs?.toFixed(0) ?? '-' },
  { head: 'jain', width: 6, text: (one) => one.jain.toFixed(3) },
  { head: 'denied', width: 7, text: (one) => one.falseDenials.toFixed(4) },
  { head: 'churn', width: 6, text: (one) => one.churn.toFixed(3) },
  { head: 'handed', width: 7, text: (one) => one.handedOut.toFixed(3) },
  { head: 'held', width: 11, text: (one) => heldText(one) },
  { head: 'msg/s', width: 6, text: (one) => one.messagesPerSecondPerRegion.toFixed(1) },
  { head: 'B/s', width: 8, text: (one) => one.bytesPerSecondPerRegion.toFixed(0) },
]

const NAME_WIDTH = 48

/** The head of a scenario's table. */
export function headOf(id: string, title: string, isCompare: boolean): string {
  const name = `${id} ${title}`.padEnd(NAME_WIDTH)
  const heads = COLUMNS.map(({ head, width }) => head.padStart(width)).join(' ')
  return `\n${name}${isCompare ? ' strategy    ' : ''} ${heads}`
}

export function lineOf(outcome: Outcome, isCompare: boolean): string {
  const name = `  ${outcome.variant}`.slice(0, NAME_WIDTH).padEnd(NAME_WIDTH)
  const strategy = isCompare ? ` ${outcome.strategy.padEnd(12)}` : ''
  const texts = COLUMNS.map(({ width, text }) => text(outcome).padStart(width)).join(' ')
  const published = outcome.published === null || isCompare ? '' : `  (${outcome.published})`
  return `${name}${strategy} ${texts}${published}`
}

/** The line of `--json`; rounded, so that it reads well and compares exactly. */
export function jsonOf(outcome: Outcome, isCompare: boolean): string {
  const figures = {
    scenario: outcome.scenario,
    variant: outcome.variant,
    seed: outcome.seed,
    excess: rounded(outcome.excess, 6),
    utilisation: rounded(outcome.utilisation, 4),
    utilisationPartitionAware: rounded(outcome.utilisationPartitionAware, 4),
    convergenceMs: outcome.convergenceMs === null ? null : rounded(outcome.convergenceMs, 0),
    jain: rounded(outcome.jain, 4),
    falseDenials: rounded(outcome.falseDenials, 5),
    bytesPerSecondPerRegion: rounded(outcome.bytesPerSecondPerRegion, 1),
  }
  if (!isCompare) return JSON.stringify(figures)
  const { strategy } = outcome
  const messagesPerSecondPerRegion = rounded(outcome.messagesPerSecondPerRegion, 2)
  return JSON.stringify({ ...figures, messagesPerSecondPerRegion, strategy })
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}

/** Mean and most, in per cent. */
function heldText({ held, heldMost }: Outcome): string {
  return `${(100 * held).toFixed(1)}/${(100 * heldMost).toFixed(0)} %`
}

function excessText(excess: number): string {
  return excess === 0 ? '0' : excess.toFixed(1)
}
