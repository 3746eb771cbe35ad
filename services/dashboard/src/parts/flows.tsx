import { compact } from '../data/format.ts'
import { colourAt } from './chart.tsx'

export interface Loan {
  readonly lender: string
  readonly borrower: string
  readonly tokens: number
}

const SIZE = 260
const CENTRE = SIZE / 2
const RADIUS = 84

/** Regions on a circle, and an arrow for every loan, as wide as its part of the limit. */
export function Flows(props: {
  readonly regions: readonly string[]
  readonly loans: readonly Loan[]
  readonly capacity: number
}) {
  const { regions, loans, capacity } = props
  const at = (region: string, radius: number): [number, number] => {
    const turn = (2 * Math.PI * regions.indexOf(region)) / regions.length - Math.PI / 2
    return [CENTRE + radius * Math.cos(turn), CENTRE + radius * Math.sin(turn)]
  }
  const words = loans.map((loan) => `${loan.lender} lends ${loan.tokens} to ${loan.borrower}`)
  return (
    <figure class="flows">
      <figcaption>Loans</figcaption>
      <svg
        viewBox={`0 0 ${SIZE} ${SIZE}`}
        role="img"
        aria-label={words.length === 0 ? 'Nothing is lent' : words.join('; ')}
      >
        <defs>
          <marker
            id="head"
            markerWidth="8"
            markerHeight="8"
            refX="6"
            refY="4"
            orient="auto"
            markerUnits="userSpaceOnUse"
          >
            <path d="M0,0 L8,4 L0,8 z" fill="currentColor" />
          </marker>
        </defs>
        {loans.map((loan) => {
          const [x1, y1] = at(loan.lender, RADIUS - 16)
          const [x2, y2] = at(loan.borrower, RADIUS - 20)
          const bend = `${CENTRE + (y2 - y1) * 0.12},${CENTRE - (x2 - x1) * 0.12}`
          return (
            <path
              key={`${loan.lender}>${loan.borrower}`}
              class="flow"
              d={`M${x1},${y1} Q${bend} ${x2},${y2}`}
              style={{ strokeWidth: `${1.5 + (12 * loan.tokens) / Math.max(1, capacity)}px` }}
              marker-end="url(#head)"
            >
              <title>{`${loan.lender} → ${loan.borrower}: ${compact(loan.tokens)} tokens`}</title>
            </path>
          )
        })}
        {regions.map((region, i) => {
          const [x, y] = at(region, RADIUS)
          return (
            <g key={region}>
              <circle cx={x} cy={y} r="12" style={{ fill: `var(${colourAt(i)})` }} />
              <text x={x} y={y < CENTRE ? y - 18 : y + 26} text-anchor="middle">
                {region}
              </text>
            </g>
          )
        })}
      </svg>
    </figure>
  )
}
