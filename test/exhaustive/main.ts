/**
 * `npm run exhaustive`: searches every scope and says what held where.
 *
 * Exits with 1 when an invariant is violated, when a bound is not tight, or when a broken rule is not found out.
 */
import { parseArgs } from 'node:util'
import { isMutant, MUTANT_NAMES, MUTANTS, type Mutant } from './mutants.ts'
import { type Finding, humanLines, jsonLine, traceLines } from './report.ts'
import { MUTANT_SCOPES, PLANS, type Plan } from './scopes.ts'
import { type SearchOptions, search } from './search.ts'
import { poolOf, type Scope } from './state.ts'

const HELP = `npm run exhaustive -- [options]
  --scope NAME    search this scope only: ${PLANS.map(({ scope }) => scope.name).join(', ')}
  --states N      look at no more than about N states of each scope
  --mutant NAME   break one rule and print the shortest way to a violation: ${MUTANT_NAMES.join(', ')}
  --mutants       break every rule in turn; print how many were found out
  --json          one line of JSON a search
`

/** More than any mutant needs; a search that gets here has missed it. */
const MUTANT_STATES_MAX = 3_000_000

const { values } = parseArgs({
  options: {
    scope: { type: 'string' },
    states: { type: 'string' },
    mutant: { type: 'string' },
    mutants: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

process.exitCode = run()

function run(): number {
  if (values.help) {
    print(HELP)
    return 0
  }
  if (values.mutants) return runMutants()
  if (values.mutant !== undefined) return runMutant(values.mutant)
  return runScopes()
}

function runScopes(): number {
  const plans = PLANS.filter(
    ({ scope }) => values.scope === undefined || scope.name === values.scope,
  )
  if (plans.length === 0) return refuse(`there is no scope ${values.scope}`)
  const findings = plans.map((plan) => {
    const finding = findIn(plan)
    tell(finding)
    return finding
  })
  const isGood = findings.every(
    ({ result, isTight }) => result.verdict !== 'violated' && isTight !== false,
  )
  const states = findings.reduce((sum, { result }) => sum + result.states, 0)
  const seconds = findings.reduce((sum, finding) => sum + finding.seconds, 0)
  const complete = findings.filter(({ result }) => result.verdict === 'holds').length
  summarize(
    `${isGood ? 'no violation' : 'VIOLATED'}: ${findings.length} scopes, ${complete} of them complete, ` +
      `${states.toLocaleString('en-US')} states, ${seconds.toFixed(0)} s`,
  )
  return isGood ? 0 : 1
}

function findIn({ scope, statesMax }: Plan): Finding {
  const limit = values.states === undefined ? statesMax : Number(values.states)
  const timed = timedSearch(scope, null, { statesMax: limit })
  const tight = search({ scope, mutant: null }, { poolMax: poolOf(scope) - 1 })
  return { ...timed, isTight: tight.verdict === 'violated' }
}

function runMutant(name: string): number {
  if (!isMutant(name)) return refuse(`there is no mutant ${name}`)
  const finding = findMutant(name)
  tell(finding)
  if (!values.json) print(`${traceLines(finding.result).join('\n')}\n`)
  return finding.result.verdict === 'violated' ? 0 : 1
}

function runMutants(): number {
  let killed = 0
  for (const name of MUTANT_NAMES) {
    const finding = findMutant(name)
    const isKilled = finding.result.verdict === 'violated'
    if (isKilled) killed += 1
    if (values.json) tell(finding)
    else print(`${isKilled ? 'killed  ' : 'SURVIVED'} ${name.padEnd(30)} ${factsOf(finding)}\n`)
  }
  summarize(`${killed}/${MUTANT_NAMES.length} mutants killed`)
  return killed === MUTANT_NAMES.length ? 0 : 1
}

function findMutant(name: Mutant): Finding {
  return timedSearch(MUTANT_SCOPES[name], name, { statesMax: MUTANT_STATES_MAX })
}

function factsOf({ scope, result, seconds }: Finding): string {
  const { depth, states, violation } = result
  const what = violation ?? 'nothing found'
  return `in ${depth} actions (${scope.name}, ${states.toLocaleString('en-US')} states, ${seconds.toFixed(1)} s): ${what}`
}

function timedSearch(scope: Scope, mutant: Mutant | null, options: SearchOptions): Finding {
  const began = performance.now()
  const result = search({ scope, mutant }, { ...options, onLevel: showProgress })
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K')
  return { scope, mutant, result, seconds: (performance.now() - began) / 1_000, isTight: null }
}

function showProgress({
  depth,
  states,
}: {
  readonly depth: number
  readonly states: number
}): void {
  if (process.stderr.isTTY) process.stderr.write(`\r  depth ${depth}, ${states} states `)
}

function tell(finding: Finding): void {
  if (values.json) print(`${jsonLine(finding)}\n`)
  else {
    const rule =
      finding.mutant === null || !isMutant(finding.mutant)
        ? []
        : [`broken rule: ${MUTANTS[finding.mutant]}`]
    print(`${[...rule, ...humanLines(finding)].join('\n')}\n`)
  }
}

function summarize(line: string): void {
  if (!values.json) print(`${line}\n`)
}

function refuse(reason: string): number {
  process.stderr.write(`${reason}\n${HELP}`)
  return 2
}

function print(text: string): void {
  process.stdout.write(text)
}
