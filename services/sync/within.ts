/** Resolves when `work` has settled or `ms` have passed: for closing what may hang. Failures are the work's own. */
export async function within(ms: number, work: Promise<unknown> | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, expired])
  clearTimeout(timer)
}
