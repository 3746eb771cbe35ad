import { createHash } from 'node:crypto'

const NAME_LENGTH_MAX = 63

/** Gives policies names that say what they govern, each once. */
export class PolicyNames {
  readonly #taken = new Set<string>()

  /** A name made of `words`; the same words in the same order give the same names again. */
  take(words: readonly string[]): string {
    const name = nameOf(words)
    let candidate = name
    for (let count = 2; this.#taken.has(candidate); count++) {
      const end = `-${count}`
      candidate = `${name.slice(0, NAME_LENGTH_MAX - end.length)}${end}`
    }
    this.#taken.add(candidate)
    return candidate
  }
}

function nameOf(words: readonly string[]): string {
  const name =
    words
      .map(wordOf)
      .filter((word) => word !== '')
      .join('-') || 'policy'
  if (name.length <= NAME_LENGTH_MAX) return name
  const digest = createHash('sha256').update(words.join('\n')).digest('hex').slice(0, 8)
  return `${name.slice(0, NAME_LENGTH_MAX - digest.length - 1).replace(/-+$/, '')}-${digest}`
}

function wordOf(word: string): string {
  return word
    .toLowerCase()
    .replaceAll('*', '-any-')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
}
