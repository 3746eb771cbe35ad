/** Random numbers that a seed repeats (mulberry32). */
export function randomOf(seed: number): {
  below(limit: number): number
  pick<T>(list: readonly T[]): T
} {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    below,
    pick(list) {
      const item = list[below(list.length)]
      if (item === undefined) throw new Error('a list to pick from is not empty')
      return item
    },
  }
}
