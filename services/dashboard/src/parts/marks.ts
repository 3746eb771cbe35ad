/** An instant that is marked on the axis of time, with a word. */
export interface Mark {
  readonly atS: number
  readonly name: string
}

/** What is needed of a plot of uPlot. */
export interface Plot {
  readonly ctx: {
    strokeStyle: unknown
    fillStyle: unknown
    font: string
    textAlign: unknown
    save(): void
    restore(): void
    setLineDash(lengths: number[]): void
    beginPath(): void
    moveTo(x: number, y: number): void
    lineTo(x: number, y: number): void
    stroke(): void
    fillText(text: string, x: number, y: number): void
  }
  readonly bbox: {
    readonly left: number
    readonly top: number
    readonly width: number
    readonly height: number
  }
  readonly scales: Readonly<
    Record<string, { readonly min?: number | null; readonly max?: number | null }>
  >
  valToPos(value: number, scale: string, isInCanvasPixels?: boolean): number
}

/** Names of marks that would be written over one another are left out; the table has all. */
const MARK_SPACE_PX = 40

/**
 * Draws those marks that lie on the axis of the plot, each with its name where that has room. The axis ends where its
 * last bucket begins, so a mark within that one is drawn at the end; `stepS` is the length of a bucket in seconds.
 */
export function drawMarks(
  plot: Plot,
  marks: readonly Mark[],
  { ink, scale, stepS }: { readonly ink: string; readonly scale: number; readonly stepS: number },
): void {
  const { ctx, bbox } = plot
  const [startS, endS] = [plot.scales['x']?.min ?? 0, plot.scales['x']?.max ?? 0]
  const spacePx = MARK_SPACE_PX * scale
  ctx.save()
  ctx.strokeStyle = ink
  ctx.fillStyle = ink
  ctx.font = `${12 * scale}px system-ui, sans-serif`
  ctx.setLineDash([2 * scale, 3 * scale])
  let nameEnd = Number.NEGATIVE_INFINITY
  const shown = marks.filter(({ atS }) => atS >= startS && atS < endS + stepS)
  for (const { atS, name } of shown.sort((one, other) => one.atS - other.atS)) {
    const x = Math.round(plot.valToPos(Math.min(atS, endS), 'x', true))
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    // Before its line where there is no room behind it.
    const isBefore = x + spacePx > bbox.left + bbox.width
    const nameStart = isBefore ? x - spacePx : x
    if (nameStart < nameEnd) continue
    ctx.textAlign = isBefore ? 'right' : 'left'
    ctx.fillText(name, x + (isBefore ? -3 : 3) * scale, bbox.top + 12 * scale)
    nameEnd = nameStart + spacePx
  }
  ctx.restore()
}
