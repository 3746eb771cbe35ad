/** Resolves when `work` has ended either way, or once `signal` is aborted; never rejects. */
export function settledBefore(signal: AbortSignal, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      signal.removeEventListener('abort', end)
      resolve()
    }
    if (signal.aborted) end()
    signal.addEventListener('abort', end)
    work.then(end, end)
  })
}
