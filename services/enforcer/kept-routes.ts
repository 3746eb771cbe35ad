import type { Descriptor } from '../../shared/core/descriptor.ts'
import type { Route } from './route.ts'

/**
 * Routes kept in each of the two generations, and characters of their keys. Holding too few costs time and never a
 * wrong count: counters live in Redis. With both together the routes take about 125 MB, whatever callers send.
 */
const GENERATION_ROUTES_MAX = 131_072
const GENERATION_CHARS_MAX = 6_000_000

/** Longer descriptors are worked out each time, so that what callers send cannot fill the memory. */
const KEPT_KEY_LENGTH_MAX = 512

/** Stands for the key of descriptors of several entries; no entry has it. */
const SEVERAL = ''

/** The routes of one domain and key, by value. */
interface Table {
  young: Map<string, Route>
  old: Map<string, Route>
}

/**
 * Remembers routes within a bound.
 *
 * Most descriptors have one entry, and are found by their value in the table of their domain and key: joining the
 * parts to one string and hashing it costs more than deciding a check out of a lease does. Two generations instead of
 * a list ordered by use: when the young one is full it becomes the old one, and what is asked for again moves back.
 */
export class KeptRoutes {
  #tables = new Map<string, Map<string, Table>>()
  #size = 0
  #young = 0
  #youngChars = 0
  /** The table that was used last, and whose it is: nearly always that of the next descriptor too. */
  #last: Table | null = null
  #lastDomain = ''
  #lastKey = ''
  /** The route that was found last, where and by which value: of a hot key most checks follow another of its own. */
  #lastRoute: Route | null = null
  #lastTable: Table | null = null
  #lastValue = ''

  /** Number of routes kept. */
  get size(): number {
    return this.#size
  }

  find(domain: string, { entries }: Descriptor): Route | null {
    const entry = entries[0]
    if (entry === undefined || entries.length > 1) return this.#findSeveral(domain, { entries })
    return this.#findIn(this.#tableOf(domain, entry.key), entry.value)
  }

  keep(domain: string, { entries }: Descriptor, route: Route): void {
    const [entry] = entries
    if (entry === undefined || entries.length > 1) {
      this.#keepIn(domain, { key: SEVERAL, value: joined(entries) }, route)
    } else this.#keepIn(domain, entry, route)
  }

  clear(): void {
    this.#tables = new Map()
    this.#size = 0
    this.#young = 0
    this.#youngChars = 0
    this.#forgetLast()
  }

  #findSeveral(domain: string, { entries }: Descriptor): Route | null {
    return this.#findIn(this.#tableOf(domain, SEVERAL), joined(entries))
  }

  #findIn(table: Table | null, value: string): Route | null {
    if (table === null) return null
    if (value === this.#lastValue && table === this.#lastTable) return this.#lastRoute
    const young = table.young.get(value)
    if (young !== undefined) {
      this.#lastRoute = young
      this.#lastTable = table
      this.#lastValue = value
      return young
    }
    const old = table.old.get(value)
    if (old === undefined) return null
    // Where there is no room it stays old: only what is new begins another generation.
    if (!this.#isFull()) {
      table.old.delete(value)
      this.#size -= 1
      this.#putYoung(table, value, old)
    }
    return old
  }

  #tableOf(domain: string, key: string): Table | null {
    if (key === this.#lastKey && domain === this.#lastDomain && this.#last !== null) {
      return this.#last
    }
    const table = this.#tables.get(domain)?.get(key)
    if (table === undefined) return null
    this.#last = table
    this.#lastDomain = domain
    this.#lastKey = key
    return table
  }

  #keepIn(
    domain: string,
    { key, value }: { readonly key: string; readonly value: string },
    route: Route,
  ): void {
    if (domain.length + key.length + value.length > KEPT_KEY_LENGTH_MAX) return
    if (this.#isFull()) this.#grow()
    const byKey = this.#tables.get(domain) ?? new Map<string, Table>()
    const table = byKey.get(key) ?? { young: new Map(), old: new Map() }
    byKey.set(key, table)
    this.#tables.set(domain, byKey)
    this.#youngChars += domain.length + key.length
    this.#putYoung(table, value, route)
  }

  #putYoung(table: Table, value: string, route: Route): void {
    table.young.set(value, route)
    this.#size += 1
    this.#young += route.parts?.count ?? 1
    this.#youngChars += value.length
  }

  #isFull(): boolean {
    return this.#young >= GENERATION_ROUTES_MAX || this.#youngChars >= GENERATION_CHARS_MAX
  }

  #forgetLast(): void {
    this.#last = null
    this.#lastRoute = null
    this.#lastTable = null
  }

  /** The young generation becomes the old one, and the old one is forgotten. */
  #grow(): void {
    this.#forgetLast()
    for (const [domain, byKey] of this.#tables) {
      for (const [key, table] of byKey) {
        this.#size -= table.old.size
        table.old = table.young
        table.young = new Map()
        if (table.old.size === 0) byKey.delete(key)
      }
      if (byKey.size === 0) this.#tables.delete(domain)
    }
    this.#young = 0
    this.#youngChars = 0
  }
}

/** Injective by lengths, which is cheaper than the escapes of a counter's name. */
function joined(entries: Descriptor['entries']): string {
  let text = ''
  for (const { key, value } of entries) text += `${key.length}.${value.length}:${key}${value}`
  return text
}
