import { Stretch } from '../../shared/runtime/stretch.ts'

/**
 * Gives what Postgres answers, and does work of admin's own with each item until then, so that both are busy.
 *
 * Returns and throws only once Postgres has answered, since nothing may be asked in a transaction that is being undone.
 * Of two failures that of the work is thrown.
 */
export async function whileWaiting<T, Item>(
  answer: Promise<T>,
  items: Iterable<Item>,
  work: (item: Item) => void,
): Promise<T> {
  const settled = Promise.allSettled([answer])
  try {
    const stretch = new Stretch()
    // First the statement has to leave.
    await stretch.rest()
    for (const item of items) {
      work(item)
      await stretch.breathe()
    }
  } finally {
    await settled
  }
  return await answer
}
