import { compact } from '../data/format.ts'

export interface Bar {
  readonly name: string
  /** Of the limit, from 0 on. */
  readonly share: number
  readonly demand: number
  readonly isHungry: boolean
  /** False for a region that is cut off: its last word is no present. */
  readonly isKnown: boolean
  readonly colour: string
}

/** Of each region its share as a bar and its demand as a mark over it; both stand in words beside it. */
export function Bars(props: { readonly bars: readonly Bar[]; readonly unit: string }) {
  const { bars, unit } = props
  const most = Math.max(1, ...bars.flatMap(({ share, demand }) => [share, demand]))
  const part = (value: number): string => `${(100 * value) / most}%`
  return (
    <figure class="bars">
      <figcaption>Demand against share, {unit}</figcaption>
      <ul class="plain">
        {bars.map((bar) => (
          <li key={bar.name}>
            {bar.isKnown ? (
              <span>{wordsOf(bar)}</span>
            ) : (
              <span>{bar.name}: cut off, not known</span>
            )}
            {bar.isKnown && (
              <div class="bar" aria-hidden="true">
                <div
                  class="fill"
                  style={{ width: part(bar.share), background: `var(${bar.colour})` }}
                />
                <div class="mark" style={{ left: part(bar.demand) }} />
              </div>
            )}
          </li>
        ))}
      </ul>
    </figure>
  )
}

function wordsOf({ name, share, demand, isHungry }: Bar): string {
  const short = Math.ceil(demand - share)
  const has = `${name}: asks for ${compact(Math.round(demand))}, has ${compact(Math.round(share))}`
  return isHungry && short > 0 ? `${has} (short by ${compact(short)})` : has
}
