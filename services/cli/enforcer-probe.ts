/** Looks at enforcers from where the command runs; what admin knows of them it has from their region. */
import type { DoctorFinding } from '../../shared/protocol/doctor.ts'
import type { Io } from './io.ts'

const PROBE_TIMEOUT_MS = 2_000

/** Enforcers of all regions that are looked at, and how many at once. */
const PROBES_MAX = 100
const AT_ONCE_MAX = 10

/** Enforcers that one finding names. */
const NAMED_MAX = 3

export interface Enforcer {
  readonly region: string
  /** Host and port, as it says of itself. */
  readonly name: string
}

/** Null: it is ready. */
type Answer =
  | { readonly reached: true; readonly problem: string | null }
  | { readonly reached: false }

/**
 * One finding for each region: its enforcers are ready, or which are not, or that they cannot be reached from here. The
 * last is no fault of theirs as a rule, so it says where to look instead.
 */
export async function probeEnforcers(
  enforcers: readonly Enforcer[],
  io: Io,
): Promise<readonly DoctorFinding[]> {
  const asked = enforcers.slice(0, PROBES_MAX)
  const answers = new Map<Enforcer, Answer>()
  const waiting = [...asked]
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      answers.set(next, await probe(hostOf(next.name), io))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE_MAX }, work))
  const regions = [...new Set(asked.map(({ region }) => region))]
  return regions.flatMap((region) =>
    findingsOf(
      region,
      asked.filter((one) => one.region === region),
      answers,
    ),
  )
}

function findingsOf(
  region: string,
  enforcers: readonly Enforcer[],
  answers: ReadonlyMap<Enforcer, Answer>,
): readonly DoctorFinding[] {
  const head = { part: `enforcers of ${region}`, check: 'ready' }
  const told = enforcers.map((one) => ({ name: one.name, answer: answers.get(one) }))
  const unreached = told.filter(({ answer }) => answer?.reached !== true).map(({ name }) => name)
  const ready = told.filter(({ answer }) => answer?.reached === true && answer.problem === null)
  const problems = told.flatMap(({ name, answer }): readonly DoctorFinding[] => {
    if (answer?.reached !== true || answer.problem === null) return []
    const fix = `see http://${hostOf(name)}/readyz?verbose and its log`
    return [{ ...head, severity: 'problem', message: `${name} ${answer.problem}`, fix }]
  })
  return [
    ...problems,
    ...(ready.length > 0
      ? [
          {
            ...head,
            severity: 'ok',
            message: `${ready.length} answer here, and are ready`,
          } as const,
        ]
      : []),
    ...(unreached.length > 0
      ? [
          {
            ...head,
            severity: 'note',
            message: `${named(unreached)} cannot be reached from this machine, so only what they tell their region is known`,
            fix: 'run doctor where they can be reached, or see quotaplane rollout status',
          } as const,
        ]
      : []),
  ]
}

/** One of several processes on a port is told apart by a number that is no part of the address. */
function hostOf(name: string): string {
  return name.split('#')[0] ?? name
}

/** By TLS where plain HTTP is not spoken. */
async function probe(host: string, io: Io): Promise<Answer> {
  for (const scheme of ['http', 'https']) {
    const answer = await ask(`${scheme}://${host}/readyz`, io)
    if (answer.reached) return answer
  }
  return { reached: false }
}

async function ask(url: string, io: Io): Promise<Answer> {
  if (!URL.canParse(url)) return { reached: false }
  try {
    const signal = AbortSignal.any([AbortSignal.timeout(PROBE_TIMEOUT_MS), io.signal])
    const response = await fetch(url, { signal })
    if (response.ok) return { reached: true, problem: null }
    return { reached: true, problem: `is not ready: ${(await response.text()).slice(0, 200)}` }
  } catch {
    return { reached: false }
  }
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).join(', ')
  const more = names.length - NAMED_MAX
  return more > 0 ? `${shown} and ${more} more` : shown
}
