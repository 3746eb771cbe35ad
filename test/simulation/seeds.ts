/** SEED=n runs that one seed instead of all. */
const ONLY = process.env['SEED']

/** Runs `run` for each seed from 1; a failure names its seed, and SEED=n repeats it alone. */
export function eachSeed(count: number, run: (seed: number) => void): void {
  const seeds = ONLY === undefined ? Array.from({ length: count }, (_, i) => i + 1) : [Number(ONLY)]
  for (const seed of seeds) {
    try {
      run(seed)
    } catch (err) {
      throw new Error(`SEED=${seed} breaks it`, { cause: err })
    }
  }
}
