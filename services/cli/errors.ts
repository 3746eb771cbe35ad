/** 0 done; 1 failed; 2 the command was used wrongly; 3 a check was denied. */
export const EXIT = { ok: 0, failure: 1, usage: 2, denied: 3 } as const

/** A failure told to the user as it stands, without a stack. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: number

  constructor(message: string, exitCode: number = EXIT.failure) {
    super(message)
    this.exitCode = exitCode
  }
}
