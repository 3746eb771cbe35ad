import { age, compact } from '../data/format.ts'

export interface Loan {
  readonly lender: string
  readonly borrower: string
  readonly tokens: number
  /** Until it lapses, unless it is extended; null where that is not known. */
  readonly leftMs: number | null
}

const SIZE = 260
const CENTRE = SIZE / 2
const RADIUS = 84

/** So that loans both ways between two regions do not lie on one another. */
const BEND = 0.3

/** Regions on a circle, and an arrow for every loan, as wide as its part of the limit. */
export function Flows(props: {
  readonly regions: readonly { readonly name: string; readonly colour: string }[]
  readonly loans: readonly Loan[]
  readonly capacity: number
}) {
  const { regions, loans, capacity } = props
  const at = (region: string, radius: number): [number, number] => {
    const turn =
      (2 * Math.PI * regions.findIndex(({ name }) => name === region)) / regions.length -
      Math.PI / 2
    return [CENTRE + radius * Math.cos(turn), CENTRE + radius * Math.sin(turn)]
  }
  const words = loans.map(
    (loan) => `${loan.lender} lends ${loan.tokens} to ${loan.borrower}, ${lapseText(loan.leftMs)}`,
  )
  return (
    <figure class="flows">
      <figcaption>{loans.length === 0 ? 'Loans: nothing is lent' : 'Loans'}</figcaption>
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
          const controlX = (x1 + x2) / 2 + (y2 - y1) * BEND
          const controlY = (y1 + y2) / 2 - (x2 - x1) * BEND
          // On the middle of the curve.
          const labelX = (x1 + x2) / 4 + controlX / 2
          const labelY = (y1 + y2) / 4 + controlY / 2
          return (
            <g key={`${loan.lender}>${loan.borrower}`}>
              <path
                class="flow"
                d={`M${x1},${y1} Q${controlX},${controlY} ${x2},${y2}`}
                style={{ strokeWidth: `${1.5 + (12 * loan.tokens) / Math.max(1, capacity)}px` }}
                marker-end="url(#head)"
              >
                <title>{`${loan.lender} → ${loan.borrower}: ${compact(loan.tokens)} tokens`}</title>
              </path>
              <text x={labelX} y={labelY} text-anchor="middle" class="flow-label">
                {compact(loan.tokens)}
                {loan.leftMs !== null && `, ${age(Math.max(0, loan.leftMs))}`}
              </text>
            </g>
          )
        })}
        {regions.map(({ name, colour }) => {
          const [x, y] = at(name, RADIUS)
          return (
            <g key={name}>
              <circle cx={x} cy={y} r="12" style={{ fill: `var(${colour})` }} />
              <text x={x} y={y < CENTRE ? y - 18 : y + 26} text-anchor="middle">
                {name}
              </text>
            </g>
          )
        })}
      </svg>
    </figure>
  )
}

/** When a loan lapses, in words. */
export function lapseText(leftMs: number | null): string {
  if (leftMs === null) return 'until when is not known'
  return leftMs <= 0
    ? 'has lapsed, unless it was extended unheard'
    : `lapses in ${age(leftMs)} unless extended`
}
