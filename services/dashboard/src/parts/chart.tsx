import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { compact } from '../data/format.ts'

export interface Series {
  readonly name: string
  readonly values: readonly (number | null)[]
}

/** Six colours that differ in lightness too; in the order of the regions' names. */
export const COLOURS = ['--c1', '--c2', '--c3', '--c4', '--c5', '--c6'] as const

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
}) {
  const frame = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const shape = `${props.series.map(({ name }) => name).join('|')}/${props.ceiling?.name ?? ''}`
  const data = dataOf(props)
  // The plot is made anew only when its shape changes.
  useEffect(() => {
    const parent = frame.current
    if (parent === null) return
    const make = (): void => {
      plot.current?.destroy()
      plot.current = new uPlot(optionsOf(props, parent), dataOf(props), parent)
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
        {props.series.map(({ name }, i) => (
          <li key={name}>
            <span class="swatch" style={{ background: `var(${colourAt(i)})` }} aria-hidden="true" />
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

export function colourAt(index: number): string {
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

function optionsOf(props: ChartProps, parent: HTMLElement): uPlot.Options {
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
    scales: { y: { range: (_, _min, max) => [0, Math.max(1, max * 1.1)] } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map(timeOf) },
      { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => compact(tick)) },
    ],
    series: [
      {},
      ...order.map((i) => ({
        label: props.series[i]?.name ?? '',
        stroke: colour(colourAt(i)),
        width: 2,
        points: { show: false },
        ...(props.isStacked && { fill: colour(colourAt(i)) }),
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

function timeOf(seconds: number): string {
  return new Date(1_000 * seconds).toLocaleTimeString('en-GB')
}
