/** The long run: random worlds on every core until enough steps of the protocol were taken. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { SoakOutcome } from './soak-world.ts'

export interface SoakReport {
  readonly steps: number
  readonly worlds: number
  readonly attempts: number
  readonly failures: readonly SoakOutcome[]
}

/** More failures than these say nothing new. */
const FAILURES_MAX = 10

/** Progress is said this often. */
const SAY_EVERY_MS = 2_000

/** Runs worlds `seed`, `seed + 1`, … until `steps` steps are done. The set of worlds depends on speed, each does not. */
export async function soak(steps: number, seed: number): Promise<SoakReport> {
  const threads = Math.max(1, Math.min(availableParallelism(), 8))
  const startedMs = Date.now()
  const failures: SoakOutcome[] = []
  let [done, worlds, attempts, saidMs] = [0, 0, 0, startedMs]
  const workers = Array.from(
    { length: threads },
    (_, index) =>
      new Worker(new URL('./soak-worker.js', import.meta.url), {
        workerData: { seed: seed + index, stride: threads },
      }),
  )
  await new Promise<void>((resolve, reject) => {
    const take = (outcome: SoakOutcome): void => {
      done += outcome.steps
      attempts += outcome.attempts
      worlds++
      if (outcome.violations.length > 0) {
        failures.push(outcome)
        sayFailure(outcome)
      }
      if (done >= steps || failures.length >= FAILURES_MAX) resolve()
      if (Date.now() - saidMs < SAY_EVERY_MS) return
      saidMs = Date.now()
      sayProgress({ done, steps, worlds, elapsedMs: saidMs - startedMs, failures: failures.length })
    }
    for (const worker of workers) {
      worker.on('message', take)
      worker.on('error', reject)
    }
  })
  await Promise.all(workers.map((worker) => worker.terminate()))
  return { steps: done, worlds, attempts, failures }
}

function sayFailure({ seed, violations }: SoakOutcome): void {
  console.error(`world ${seed} is broken; repeat it with: npm run sim -- --soak 1 --seed ${seed}`)
  for (const violation of violations.slice(0, 5)) console.error(`  ${violation}`)
}

function sayProgress(at: {
  readonly done: number
  readonly steps: number
  readonly worlds: number
  readonly elapsedMs: number
  readonly failures: number
}): void {
  const perSecond = (at.done / at.elapsedMs) * 1_000
  const leftSeconds = Math.max(0, (at.steps - at.done) / perSecond)
  const percent = Math.min(100, (100 * at.done) / at.steps).toFixed(1)
  const rate = `${Math.round(perSecond).toLocaleString('en')} steps/s`
  console.error(
    `${percent} %, ${at.worlds} worlds, ${rate}, about ${leftSeconds.toFixed(0)} s left, ${at.failures} broken`,
  )
}
