import { useEffect, useState } from 'preact/hooks'
import { age } from '../data/format.ts'

/** Older than this is not what is: it is marked, and shown in grey. */
const STALE_AFTER_MS = 5_000

/** What is known of how old something is. */
export interface Aged {
  /** `performance.now()` of the newest word; null before the first. */
  readonly atMs: number | null
  /** What went wrong since. */
  readonly problem: string | null
  readonly by?: 'stream' | 'asking' | null
}

/** How old a view is, said when it is not live. Announced to screen readers only when that changes. */
export function Freshness(props: { readonly of: readonly Aged[] }) {
  const nowMs = useNowMs(1_000)
  const problem = props.of.find((one) => one.problem !== null)?.problem ?? null
  const oldest = oldestMs(props.of)
  const ageMs = oldest === null ? null : nowMs - oldest
  const isLate = problem !== null || isOld(ageMs)
  const word = wordFor(
    problem,
    ageMs,
    props.of.some(({ by }) => by === 'asking'),
  )
  return (
    <p class={isLate ? 'freshness stale' : 'freshness'}>
      <span aria-hidden="true">{isLate ? '▲' : '●'}</span> <span role="status">{word}</span>
      {isLate && ageMs !== null && ` What is shown is ${age(ageMs)} old.`}
    </p>
  )
}

/** Without the age, which would be read out each second. */
function wordFor(problem: string | null, ageMs: number | null, isAsked: boolean): string {
  if (problem !== null) return `Not live: ${problem}.`
  if (ageMs === null) return 'Loading'
  if (isOld(ageMs)) return 'Not live.'
  return isAsked ? 'Live, by asking each second' : 'Live'
}

/** Whether a view is too old to be taken for the present. */
export function useIsStale(of: readonly Aged[]): boolean {
  const nowMs = useNowMs(1_000)
  const oldest = oldestMs(of)
  return oldest !== null && isOld(nowMs - oldest)
}

function oldestMs(of: readonly Aged[]): number | null {
  const times = of.map((one) => one.atMs).filter((atMs) => atMs !== null)
  return times.length === 0 ? null : Math.min(...times)
}

function isOld(ageMs: number | null): boolean {
  return ageMs !== null && ageMs > STALE_AFTER_MS
}

/** `performance.now()`, as often as asked for. */
export function useNowMs(everyMs: number): number {
  const [nowMs, setNowMs] = useState(() => performance.now())
  useEffect(() => {
    const timer = setTimeout(() => setNowMs(performance.now()), everyMs)
    return () => clearTimeout(timer)
  }, [nowMs, everyMs])
  return nowMs
}
