import type { Descriptor } from '../../shared/core/descriptor.ts'
import type { Route } from './route.ts'

/** A power of two. Hot keys are few; two that meet in one place only lose the shorter way. */
const PLACES = 256

interface Place {
  domain: string
  key: string
  value: string
  /** Null while nothing is there. */
  route: Route | null
}

/**
 * Routes of descriptors of one entry that were asked for lately, found without building a key.
 *
 * Joining the parts of a descriptor and hashing them costs more than deciding a check out of a lease does.
 */
export class RouteMemo {
  /** Written over, never replaced: most checks are of callers that are not hot, and keep theirs here in vain. */
  readonly #places: readonly Place[] = Array.from({ length: PLACES }, () => ({
    domain: '',
    key: '',
    value: '',
    route: null,
  }))

  find(domain: string, { entries }: Descriptor): Route | null {
    const [entry] = entries
    if (entry === undefined || entries.length > 1) return null
    const place = this.#places[placeOf(entry.value)]
    const isIt =
      place !== undefined &&
      place.value === entry.value &&
      place.key === entry.key &&
      place.domain === domain
    return isIt ? place.route : null
  }

  keep(domain: string, { entries }: Descriptor, route: Route): void {
    const [entry] = entries
    if (entry === undefined || entries.length > 1) return
    const { key, value } = entry
    const place = this.#places[placeOf(value)]
    if (place === undefined) return
    place.domain = domain
    place.key = key
    place.value = value
    place.route = route
  }

  clear(): void {
    for (const place of this.#places) place.route = null
  }
}

/** By its length and last characters, in which the names of callers differ most. */
function placeOf(value: string): number {
  const { length } = value
  const last = value.charCodeAt(length - 1)
  const other = value.charCodeAt(length >> 1)
  return (last + other * 31 + length * 7) & (PLACES - 1)
}
