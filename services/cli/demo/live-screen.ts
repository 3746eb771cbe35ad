import { bold, type Sink } from '../io.ts'
import { grouped, table } from '../table.ts'

export interface LiveRow {
  readonly region: string
  /** Per cent of the limit that the region may use; null while admin does not say. */
  readonly sharePercent: number | null
  /** Checks offered, admitted and denied in the last second. */
  readonly demand: number
  readonly admitted: number
  readonly denied: number
}

export interface LiveFrame {
  readonly second: number
  readonly rows: readonly LiveRow[]
  readonly limit: number
  readonly note: string
}

/** Shows a run second by second: a table redrawn in place for a person, one plain line a second for a file. */
export class LiveScreen {
  readonly #sink: Sink
  #linesDrawn = 0

  constructor(sink: Sink) {
    this.#sink = sink
  }

  draw(frame: LiveFrame): void {
    if (!this.#sink.isTerminal) {
      this.#sink.write(`${plainLine(frame)}\n`)
      return
    }
    const lines = tableLines(frame, this.#sink)
    const back = this.#linesDrawn > 0 ? `\u001b[${this.#linesDrawn}A\u001b[J` : ''
    this.#sink.write(`${back}${lines.join('\n')}\n`)
    this.#linesDrawn = lines.length
  }
}

function tableLines(frame: LiveFrame, sink: Sink): string[] {
  const rows = frame.rows.map((row) => [
    row.region,
    share(row),
    grouped(row.demand),
    grouped(row.admitted),
    grouped(row.denied),
  ])
  const sum = total(frame)
  rows.push(['together', '', grouped(sum.demand), grouped(sum.admitted), grouped(sum.denied)])
  const [head = '', ...body] = table(
    ['region', '>share', '>demand/s', '>admitted/s', '>denied/s'],
    rows,
  )
  return [
    bold(sink, `${String(frame.second).padStart(3)} s  ${frame.note}`),
    bold(sink, head),
    ...body,
    `${gauge(sum.admitted, frame.limit)}  ${grouped(sum.admitted)} of ${grouped(frame.limit)} a second`,
  ]
}

function plainLine(frame: LiveFrame): string {
  const parts = frame.rows.map(
    (row) =>
      `${row.region} share ${share(row)} demand ${row.demand} admitted ${row.admitted} denied ${row.denied}`,
  )
  const { admitted } = total(frame)
  return `${String(frame.second).padStart(3)} s  ${parts.join(' | ')} | together ${admitted} of ${frame.limit}`
}

function share({ sharePercent }: LiveRow): string {
  return sharePercent === null ? '-' : `${Math.round(sharePercent)} %`
}

function total(frame: LiveFrame): { demand: number; admitted: number; denied: number } {
  const sum = { demand: 0, admitted: 0, denied: 0 }
  for (const row of frame.rows) {
    sum.demand += row.demand
    sum.admitted += row.admitted
    sum.denied += row.denied
  }
  return sum
}

const GAUGE_WIDTH = 40

function gauge(value: number, limit: number): string {
  const filled = Math.min(GAUGE_WIDTH, Math.round((GAUGE_WIDTH * value) / limit))
  return `[${'#'.repeat(filled)}${'.'.repeat(GAUGE_WIDTH - filled)}]`
}
