import { useEffect, useState } from 'preact/hooks'
import { age } from '../data/format.ts'
import type { Polled } from '../data/poll.ts'

/** Older than this is not what is: it is marked, and shown in grey. */
const STALE_AFTER_MS = 5_000

/** How old a view is, said when it is not live. Announced to screen readers only when that changes. */
export function Freshness(props: { readonly of: readonly Polled<unknown>[] }) {
  const nowMs = useNowMs()
  const problem = props.of.find((one) => one.problem !== null)?.problem ?? null
  const oldest = oldestMs(props.of)
  const ageMs = oldest === null ? null : nowMs - oldest
  const isLate = problem !== null || isOld(ageMs)
  return (
    <p class={isLate ? 'freshness stale' : 'freshness'} role="status">
      <span aria-hidden="true">{isLate ? '▲' : '●'}</span> {sentence(problem, ageMs)}
    </p>
  )
}

function sentence(problem: string | null, ageMs: number | null): string {
  const shown = ageMs === null ? '' : ` What is shown is ${age(ageMs)} old.`
  if (problem !== null) return `Not live: ${problem}.${shown}`
  if (ageMs === null) return 'Loading'
  return isOld(ageMs) ? `Not live.${shown}` : 'Live'
}

/** Whether a view is too old to be taken for the present. */
export function useIsStale(of: readonly Polled<unknown>[]): boolean {
  const nowMs = useNowMs()
  const oldest = oldestMs(of)
  return oldest !== null && isOld(nowMs - oldest)
}

function oldestMs(of: readonly Polled<unknown>[]): number | null {
  const times = of.map((one) => one.atMs).filter((atMs) => atMs !== null)
  return times.length === 0 ? null : Math.min(...times)
}

function isOld(ageMs: number | null): boolean {
  return ageMs !== null && ageMs > STALE_AFTER_MS
}

/** `performance.now()`, each second. */
function useNowMs(): number {
  const [nowMs, setNowMs] = useState(() => performance.now())
  useEffect(() => {
    const timer = setTimeout(() => setNowMs(performance.now()), 1_000)
    return () => clearTimeout(timer)
  }, [nowMs])
  return nowMs
}
