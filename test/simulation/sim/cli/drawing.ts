/** A run as an SVG: per region its share, what was asked and what was admitted, over time. */
import type { Meter } from '../meters/meter.ts'
import type { Series } from '../meters/series.ts'

const WIDTH = 960
const PANEL_HEIGHT = 120
const LEFT = 64
const RIGHT = 16
const TOP = 56
const GAP = 26
/** As many points as the eye can tell apart. */
const POINTS = 450

/** Colours that read on white and on black; the page's own scheme decides the rest. */
const STYLE = `
  svg { font: 12px system-ui, sans-serif; background: #fff; color: #1f2328 }
  text { fill: currentColor } .axis { stroke: currentColor; opacity: .25 }
  .share { fill: none; stroke: #0969da; stroke-width: 1.5 }
  .offered { fill: none; stroke: #bf8700; stroke-width: 1; stroke-dasharray: 3 2 }
  .admitted { fill: #2da44e; fill-opacity: .35; stroke: #2da44e; stroke-width: 1 }
  @media (prefers-color-scheme: dark) { svg { background: #0d1117; color: #e6edf3 } }`

export function drawRun(title: string, meter: Meter): string {
  const { regions, numbers, durationMs } = meter.spec
  const perSecond = (numbers.capacity * 1_000) / numbers.windowMs
  const spanMs = Math.max(durationMs / POINTS, meter.offered.binMs)
  const rates = {
    offered: regions.map((_, region) => ratesOf(meter.offered, region, spanMs, durationMs)),
    admitted: regions.map((_, region) => ratesOf(meter.admitted, region, spanMs, durationMs)),
    share: regions.map((_, region) => sharesOf(meter.shares, region, spanMs, perSecond)),
  }
  const most = Math.max(perSecond / 10, ...Object.values(rates).flat(2))
  const panels = regions.map((region, index) =>
    panelOf(region, index, most, [
      ['admitted', rates.admitted[index] ?? []],
      ['offered', rates.offered[index] ?? []],
      ['share', rates.share[index] ?? []],
    ]),
  )
  const height = TOP + regions.length * (PANEL_HEIGHT + GAP) + 8
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img">`,
    `<title>${escaped(title)}</title><style>${STYLE}</style>`,
    `<text x="${LEFT}" y="20" font-weight="600">${escaped(title)}</text>`,
    legend(),
    ...panels,
    `<text x="${WIDTH - RIGHT}" y="${height - 6}" text-anchor="end">${durationMs / 1_000} s</text>`,
    '</svg>',
    '',
  ].join('\n')
}

function legend(): string {
  return (['share', 'offered', 'admitted'] as const)
    .map((name, index) => {
      const x = LEFT + index * 160
      const line = `<path class="${name}" d="M${x},36h22" />`
      return `${line}<text x="${x + 28}" y="40">${name} (tokens/s)</text>`
    })
    .join('')
}

function panelOf(
  region: string,
  index: number,
  most: number,
  lines: readonly (readonly [string, readonly number[]])[],
): string {
  const top = TOP + index * (PANEL_HEIGHT + GAP)
  const bottom = top + PANEL_HEIGHT
  const width = WIDTH - LEFT - RIGHT
  const paths = lines.map(([name, values]) => {
    const points = values.map((value, at) => {
      const x = LEFT + (at / Math.max(1, values.length - 1)) * width
      return `${x.toFixed(1)},${(bottom - (value / most) * PANEL_HEIGHT).toFixed(1)}`
    })
    // The area of what was admitted begins and ends on the axis.
    const all =
      name === 'admitted' ? [`${LEFT},${bottom}`, ...points, `${LEFT + width},${bottom}`] : points
    return `<path class="${name}" d="M${all.join('L')}" />`
  })
  return [
    `<path class="axis" d="M${LEFT},${top}V${bottom}H${LEFT + width}" fill="none" />`,
    `<text x="${LEFT - 6}" y="${top + 10}" text-anchor="end">${Math.round(most)}</text>`,
    `<text x="${LEFT - 6}" y="${bottom}" text-anchor="end">0</text>`,
    `<text x="${LEFT + 6}" y="${top + 12}" font-weight="600">${escaped(region)}</text>`,
    ...paths,
  ].join('\n')
}

function ratesOf(series: Series, region: number, spanMs: number, durationMs: number): number[] {
  const rates: number[] = []
  for (let fromMs = 0; fromMs < durationMs; fromMs += spanMs) {
    rates.push((series.sumOf(region, fromMs, fromMs + spanMs) * 1_000) / spanMs)
  }
  return rates
}

function sharesOf(series: Series, region: number, spanMs: number, perSecond: number): number[] {
  const every = Math.max(1, Math.round(spanMs / series.binMs))
  const shares: number[] = []
  for (let bin = 0; bin < series.bins; bin += every)
    shares.push(series.get(region, bin) * perSecond)
  return shares
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
