import { compact } from '../data/format.ts'

export interface Bar {
  readonly name: string
  /** Of the limit, from 0 on. */
  readonly share: number
  readonly demand: number
  readonly isHungry: boolean
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
        {bars.map(({ name, share, demand, isHungry, colour }) => (
          <li key={name}>
            <span>
              {name}: asks for {compact(Math.round(demand))}, has {compact(Math.round(share))}
              {isHungry && (
                <strong> (short by {compact(Math.ceil(Math.max(0, demand - share)))})</strong>
              )}
            </span>
            <div class="bar" aria-hidden="true">
              <div class="fill" style={{ width: part(share), background: `var(${colour})` }} />
              <div class="mark" style={{ left: part(demand) }} />
            </div>
          </li>
        ))}
      </ul>
    </figure>
  )
}
