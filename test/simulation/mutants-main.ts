/** The command `npm run mutants`: every rule left out in turn must be caught. Exits with 1 when one is not. */
import { performance } from 'node:perf_hooks'
import { HUNTS, type Hunt, hunt } from './kills.ts'

const HELP = `Leaves each rule of the protocol out in turn and looks for a run that breaks a promise.

  npm run mutants                 all of them
  npm run mutants -- TEXT         those whose rule contains TEXT
  npm run mutants -- --help

Each runs in virtual time from seed 1 on; the table names the first seed that catches it. Exits with 1 when a
variant survives, with 2 when no rule contains TEXT.`

function main(args: readonly string[]): number {
  if (args.includes('--help')) {
    console.log(HELP)
    return 0
  }
  const text = args.join(' ')
  const chosen = HUNTS.filter(({ rule }) => rule.includes(text))
  if (chosen.length === 0) {
    console.error(`no rule contains "${text}"; see npm run mutants -- --help`)
    return 2
  }
  const width = Math.max(...chosen.map(({ rule }) => rule.length))
  console.log(`${'part'.padEnd(12)} ${'rule left out'.padEnd(width)}  caught by seed  seconds`)
  const killed = chosen.filter((one) => report(one, width)).length
  console.log(`\n${killed}/${chosen.length} killed`)
  return killed === chosen.length ? 0 : 1
}

/** Says what came of one; true when it was caught. */
function report(one: Hunt, width: number): boolean {
  const sinceMs = performance.now()
  const seed = hunt(one)
  const seconds = ((performance.now() - sinceMs) / 1_000).toFixed(1)
  const caught = seed === null ? `SURVIVED ${one.seedsMax}` : String(seed)
  const columns = [one.part.padEnd(12), one.rule.padEnd(width)]
  console.log(`${columns.join(' ')}  ${caught.padStart(14)}  ${seconds.padStart(7)}`)
  return seed !== null
}

process.exitCode = main(process.argv.slice(2))
