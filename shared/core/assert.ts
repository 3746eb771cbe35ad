/** Thrown when only a bug of our own can explain what was found; never for input. */
export class AssertionError extends Error {
  override readonly name = 'AssertionError'
}

/** Stops the caller when `condition` does not hold. For what our own code promises, not for input. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message)
}

/** Marks a branch that the types rule out. */
export function unreachable(value: never): never {
  throw new AssertionError(`unreachable value ${JSON.stringify(value)}`)
}
