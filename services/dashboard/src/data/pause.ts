/** Ends after `ms` of a visible page, at once when the page is shown again, or when `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let isDue = false
    const finish = (): void => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', look)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const look = (): void => {
      if (isDue && !document.hidden) finish()
    }
    const timer = setTimeout(() => {
      isDue = true
      look()
    }, ms)
    document.addEventListener('visibilitychange', look)
    signal.addEventListener('abort', finish)
    if (signal.aborted) finish()
  })
}

/** Ends once the page is visible, or when `signal` aborts. */
export function whenShown(signal: AbortSignal): Promise<void> {
  return pause(0, signal)
}
