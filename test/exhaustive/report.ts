/** How a search is told: one line each for people or for programs, and traces step by step. */
import type { SearchResult } from './search.ts'
import { poolOf, type Scope } from './state.ts'

export interface Finding {
  readonly scope: Scope
  readonly mutant: string | null
  readonly result: SearchResult
  readonly seconds: number
  readonly isTight: boolean | null
}

/** The bounds of a scope in words. */
export function boundsOf(scope: Scope): string {
  const parts = [
    `regions ${scope.base.length}`,
    `pool ${poolOf(scope)} (${scope.base.join('/')}${scope.nextBase === null ? '' : ` -> ${scope.nextBase.join('/')}`})`,
    ...(scope.floor.some((units) => units > 0) ? [`floors ${scope.floor.join('/')}`] : []),
    `in flight ${scope.inFlightMax}`,
    ...(scope.restartsMax > 0 ? [`restarts ${scope.restartsMax}`] : []),
    ...(scope.isCertified === true ? ['the first removed on a certificate'] : []),
    ...(scope.lossesMax > 0 ? [`losses ${scope.lossesMax}`] : []),
  ]
  return parts.join(', ')
}

/** The verdict in words. An unfinished search has seen all histories up to its depth, and says no more. */
export function verdictOf({ verdict, violation, depth }: SearchResult): string {
  switch (verdict) {
    case 'holds':
      return `holds in every reachable state (deepest: ${depth} actions)`
    case 'unfinished':
      return `holds in all histories of at most ${depth} actions; there are longer ones`
    case 'violated':
      return `VIOLATED after ${depth} actions: ${violation}`
  }
}

export function humanLines({ scope, result, seconds, isTight }: Finding): readonly string[] {
  const rate = `${count(result.states)} states, ${count(result.transitions)} transitions, ${seconds.toFixed(1)} s`
  const tight =
    isTight === null
      ? []
      : [
          `  pool - 1 is ${isTight ? 'passed, so the bound is tight' : 'NEVER PASSED: the model does nothing'}`,
        ]
  return [`${scope.name}: ${boundsOf(scope)}`, `  ${verdictOf(result)}`, `  ${rate}`, ...tight]
}

/** The shortest trace, numbered. */
export function traceLines({ trace, violation }: SearchResult): readonly string[] {
  const steps = trace.map((action, index) => `  ${String(index + 1).padStart(3)}. ${action}`)
  return violation === null ? steps : [...steps, `  => ${violation}`]
}

export function jsonLine({ scope, mutant, result, seconds, isTight }: Finding): string {
  const { verdict, violation, states, transitions, depth, trace } = result
  const { name, ...bounds } = scope
  return JSON.stringify({
    scope: name,
    mutant,
    verdict,
    violation,
    states,
    transitions,
    depth,
    seconds: Math.round(seconds * 10) / 10,
    isTight,
    trace,
    bounds,
  })
}

function count(value: number): string {
  return value.toLocaleString('en-US')
}
