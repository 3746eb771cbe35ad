/** Rounds in which both sides run one after the other, so that a busy host slows both alike. */

/** Fewest rounds of which a median says anything. */
export const ROUNDS_MIN = 5

/** Both sides of one measurement. Each gives its figure for one round. */
export interface Contest {
  readonly name: string
  readonly unit: string
  readonly peerName: string
  /** Where it takes more than are asked for. */
  readonly rounds?: number
  readonly ours: () => Promise<number>
  readonly peer: () => Promise<number>
}

/** A contest whose servers run. */
export interface Prepared {
  readonly contest: Contest
  stop(): Promise<void>
}

/** One line of `npm run bench -- --json`. */
export interface Measurement {
  readonly name: string
  readonly ours: number
  readonly peer: number
  readonly peerName: string
  /** `ours / peer`. */
  readonly ratio: number
  readonly unit: string
}

/** The round whose ratio is the median of all: its three figures belong together. */
export async function measure(contest: Contest, rounds: number): Promise<Measurement> {
  const results: Measurement[] = []
  for (let round = 0; round < Math.max(rounds, contest.rounds ?? ROUNDS_MIN); round++) {
    const isOursFirst = round % 2 === 0
    const first = isOursFirst ? await contest.ours() : await contest.peer()
    const second = isOursFirst ? await contest.peer() : await contest.ours()
    const [ours, peer] = isOursFirst ? [first, second] : [second, first]
    const { name, unit, peerName } = contest
    results.push({ name, ours, peer, peerName, ratio: ours / peer, unit })
  }
  results.sort((a, b) => a.ratio - b.ratio)
  const median = results[Math.floor(results.length / 2)]
  if (median === undefined) throw new Error('there are rounds')
  return median
}

/** Calls of `call` a second, `concurrency` at a time, after all of them have been answered. */
export async function callsPerSecond(options: {
  readonly concurrency: number
  readonly calls: number
  readonly call: (index: number) => Promise<unknown>
}): Promise<number> {
  const { concurrency, calls, call } = options
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < calls) await call(next++)
  }
  const beganMs = performance.now()
  await Promise.all(Array.from({ length: concurrency }, worker))
  return (calls * 1_000) / (performance.now() - beganMs)
}
