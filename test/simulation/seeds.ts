/** SEED=n runs that one seed instead of all. */
const ONLY = process.env['SEED']

/** SEEDS_TIMES=n plays n times as many batches. */
const TIMES = Number(process.env['SEEDS_TIMES'] ?? 1)

/** As many as a busy machine plays well within a test's time. */
const BATCH = 20

export interface SeedBatch {
  readonly first: number
  readonly last: number
}

/** Seeds from 1 on in batches, each to be a test of its own: so no number of them can take too long. */
export function seedBatches(count: number): readonly SeedBatch[] {
  if (ONLY !== undefined) return [{ first: Number(ONLY), last: Number(ONLY) }]
  return Array.from({ length: Math.ceil((count * TIMES) / BATCH) }, (_, place) => ({
    first: place * BATCH + 1,
    last: (place + 1) * BATCH,
  }))
}

/** Runs `run` for each seed of a batch; a failure names its seed, and SEED=n repeats it alone. */
export function eachOf({ first, last }: SeedBatch, run: (seed: number) => void): void {
  for (let seed = first; seed <= last; seed++) {
    try {
      run(seed)
    } catch (err) {
      throw new Error(`SEED=${seed} breaks it`, { cause: err })
    }
  }
}

/** Runs `run` for each seed from 1. */
export function eachSeed(count: number, run: (seed: number) => void): void {
  const only = Number(ONLY)
  eachOf(ONLY === undefined ? { first: 1, last: count } : { first: only, last: only }, run)
}
