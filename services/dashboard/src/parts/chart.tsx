import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { clock, compact, dayAndTime } from '../data/format.ts'
import { drawMarks, type Mark } from './marks.ts'

export interface Series {
  readonly name: string
  readonly values: readonly (number | null)[]
  /** One of COLOURS; by the place in the list where it is not given. */
  readonly colour?: string
}

/** Six colours that differ in lightness too; in the order of the regions' names. */
export const COLOURS = ['--c1', '--c2', '--c3', '--c4', '--c5', '--c6'] as const

/** Lines differ by their dashes too, as the legend shows. */
const DASHES: readonly (readonly number[])[] = [[], [8, 4], [2, 4]]

const HEIGHT_PX = 220

/**
 * Lines, or areas on top of one another, over seconds since 1970. It is a picture only: whoever shows one also shows
 * the figures as a table.
 */
export function Chart(props: {
  readonly label: string
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly isStacked?: boolean
  /** A line across, such as the limit. */
  readonly ceiling?: { readonly name: string; readonly value: number }
  readonly marks?: readonly Mark[]
}) {
  const frame = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const marks = useRef<readonly Mark[]>([])
  marks.current = props.marks ?? []
  const shape = `${props.series.map(({ name, colour }) => `${name} ${colour}`).join('|')}/${props.ceiling?.name ?? ''}`
  const data = dataOf(props)
  // The plot is made anew only when its shape changes.
  useEffect(() => {
    const parent = frame.current
    if (parent === null) return
    const make = (): void => {
      plot.current?.destroy()
      plot.current = new uPlot(optionsOf(props, parent, marks), dataOf(props), parent)
    }
    make()
    const resize = new ResizeObserver(() =>
      plot.current?.setSize({ width: parent.clientWidth, height: HEIGHT_PX }),
    )
    resize.observe(parent)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', make)
    return () => {
      resize.disconnect()
      scheme.removeEventListener('change', make)
      plot.current?.destroy()
      plot.current = null
    }
  }, [shape, props.isStacked])
  useEffect(() => {
    plot.current?.setData(data)
  }, [data])
  return (
    <figure class="chart">
      <figcaption>{props.label}</figcaption>
      <div ref={frame} role="img" aria-label={`${props.label}; the table below has the figures`} />
      <ul class="legend">
        {props.isStacked && <li class="hint">from the bottom:</li>}
        {props.series.map(({ name, colour }, i) => (
          <li key={name}>
            <span
              class={props.isStacked ? 'swatch' : `swatch line line${i % DASHES.length}`}
              style={{ color: `var(${colour ?? colourAt(i)})` }}
              aria-hidden="true"
            />
            {name}
          </li>
        ))}
        {props.ceiling && (
          <li>
            <span class="swatch dashed" aria-hidden="true" />
            {props.ceiling.name}
          </li>
        )}
      </ul>
    </figure>
  )
}

/** The colour of a region wherever it is shown. */
export function colourOf(region: string, members: readonly string[]): string {
  return colourAt(Math.max(0, members.indexOf(region)))
}

function colourAt(index: number): string {
  return COLOURS[index % COLOURS.length] ?? COLOURS[0]
}

type ChartProps = Parameters<typeof Chart>[0]

function dataOf(props: ChartProps): uPlot.AlignedData {
  const sums = new Array<number>(props.times.length).fill(0)
  const lines = props.series.map(({ values }) =>
    values.map((value, i) => {
      if (!props.isStacked || value === null) return value
      sums[i] = (sums[i] ?? 0) + value
      return sums[i] ?? null
    }),
  )
  const { ceiling } = props
  const across = ceiling === undefined ? [] : [props.times.map(() => ceiling.value)]
  // The highest area is drawn first, so that the lower ones lie on top of it.
  const drawn = props.isStacked ? lines.reverse() : lines
  return [[...props.times], ...drawn, ...across] as uPlot.AlignedData
}

function optionsOf(
  props: ChartProps,
  parent: HTMLElement,
  marks: { readonly current: readonly Mark[] },
): uPlot.Options {
  const style = getComputedStyle(parent)
  const colour = (name: string): string => style.getPropertyValue(name).trim()
  const order = props.series.map((_, i) => i)
  if (props.isStacked) order.reverse()
  const axis = {
    space: 90,
    stroke: colour('--ink-soft'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: parent.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    hooks: {
      draw: [
        (plot) => {
          const [first = 0, second = first] = plot.data[0] ?? []
          const stepS = second - first
          drawMarks(plot, marks.current, { ink: colour('--ink'), scale: devicePixelRatio, stepS })
        },
      ],
    },
    scales: { y: { range: (_, _min, max) => [0, Math.max(1, max * 1.1)] } },
    axes: [
      { ...axis, size: 30, values: (_, ticks) => ticks.map((tick) => timeOf(tick, ticks)) },
      { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => compact(tick)) },
    ],
    series: [
      {},
      ...order.map((i) => ({
        label: props.series[i]?.name ?? '',
        stroke: colour(props.series[i]?.colour ?? colourAt(i)),
        width: 2,
        points: { show: false },
        ...(props.isStacked
          ? { fill: colour(props.series[i]?.colour ?? colourAt(i)) }
          : { dash: [...(DASHES[i % DASHES.length] ?? [])] }),
      })),
      ...(props.ceiling
        ? [
            {
              label: props.ceiling.name,
              stroke: colour('--ink'),
              dash: [6, 4],
              points: { show: false },
            },
          ]
        : []),
    ],
  }
}

/** With the day where the ticks are hours apart. */
function timeOf(seconds: number, [first = 0, second = 0]: readonly number[]): string {
  const iso = new Date(1_000 * seconds).toISOString()
  return second - first >= 3_600 ? dayAndTime(iso) : clock(iso)
}
