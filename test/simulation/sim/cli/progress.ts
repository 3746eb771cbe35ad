/** Says on stderr what runs and for how long yet; silent where nobody watches. */
export interface Progress {
  begin(name: string): void
  end(): void
  clear(): void
}

export function createProgress(total: number): Progress {
  const { stderr } = process
  const startedMs = Date.now()
  let done = 0
  const isShown = stderr.isTTY === true
  const clear = (): void => {
    if (isShown) stderr.write('\r\u001b[2K')
  }
  return {
    begin(name) {
      if (!isShown) return
      const elapsed = (Date.now() - startedMs) / 1_000
      const left =
        done === 0 ? '' : `, about ${((elapsed / done) * (total - done)).toFixed(0)} s left`
      stderr.write(`\r\u001b[2K${done + 1}/${total} ${name}${left}`)
    },
    end() {
      done++
      clear()
    },
    clear,
  }
}
