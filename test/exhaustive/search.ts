/** Breadth-first search: every state that can be reached, and the shortest way to one that breaks an invariant. */
import { visitNext } from './actions.ts'
import { violationOf } from './shares.ts'
import { initialState, poolOf, type State, type World } from './state.ts'
import { Canonicalizer } from './symmetry.ts'
import { VisitedStates } from './visited.ts'

export interface SearchOptions {
  /** The pool that shares must not pass; one less than there is must be passed, or the model does nothing. */
  readonly poolMax?: number
  /** Gives up, and says so, once more states than these were seen. */
  readonly statesMax?: number
  readonly onLevel?: (progress: Progress) => void
}

export interface Progress {
  readonly depth: number
  readonly states: number
  readonly transitions: number
}

export interface SearchResult extends Progress {
  /** `holds`: in every reachable state. `unfinished`: in all states seen, but there are more. */
  readonly verdict: 'holds' | 'violated' | 'unfinished'
  readonly violation: string | null
  /** The actions from the first state to the violation, fewest possible. */
  readonly trace: readonly string[]
}

interface Place {
  readonly state: State
  readonly index: number
}

/** Explores a world level by level. Deterministic. */
export function search(world: World, options: SearchOptions = {}): SearchResult {
  const run = new Search(world, options)
  return run.explore()
}

class Search {
  readonly #world: World
  readonly #poolMax: number
  readonly #options: SearchOptions
  readonly #visited = new VisitedStates()
  readonly #canonical: Canonicalizer
  #transitions = 0
  #depth = 0
  #violation: { readonly what: string; readonly index: number } | null = null

  constructor(world: World, options: SearchOptions) {
    this.#world = world
    this.#options = options
    this.#poolMax = options.poolMax ?? poolOf(world.scope)
    this.#canonical = new Canonicalizer(world.scope)
  }

  explore(): SearchResult {
    let level: readonly Place[] = this.#first()
    while (level.length > 0 && this.#violation === null) {
      if (this.#visited.count > (this.#options.statesMax ?? Number.POSITIVE_INFINITY)) {
        return { ...this.#progress(), verdict: 'unfinished', violation: null, trace: [] }
      }
      level = this.#expand(level)
      if (level.length > 0) this.#depth += 1
      this.#options.onLevel?.(this.#progress())
    }
    if (this.#violation === null) {
      return { ...this.#progress(), verdict: 'holds', violation: null, trace: [] }
    }
    const { what, index } = this.#violation
    const trace = this.#replay(this.#visited.pathTo(index))
    return { ...this.#progress(), verdict: 'violated', violation: what, trace }
  }

  #first(): readonly Place[] {
    const state = initialState(this.#world.scope)
    return this.#admit(state, 0, 0) ? [{ state, index: 0 }] : []
  }

  #expand(level: readonly Place[]): readonly Place[] {
    const next: Place[] = []
    for (const { state, index } of level) {
      let choice = 0
      visitNext(this.#world, state, (successor) => {
        if (this.#violation !== null) return
        this.#transitions += 1
        if (this.#admit(successor, index, choice)) {
          next.push({ state: successor, index: this.#visited.count - 1 })
        }
        choice += 1
      })
    }
    return next
  }

  /** True when the state was not seen before. Checks it then. */
  #admit(state: State, parent: number, choice: number): boolean {
    const { bytes, length } = this.#canonical.encode(state)
    if (!this.#visited.add(bytes, length, parent, choice)) return false
    const what = violationOf(this.#world, state, this.#poolMax)
    if (what !== null) this.#violation = { what, index: this.#visited.count - 1 }
    return true
  }

  #replay(path: readonly number[]): readonly string[] {
    let state = initialState(this.#world.scope)
    return path.map((choice) => {
      let taken = { state, name: '' }
      let count = 0
      visitNext(this.#world, state, (successor, describe) => {
        if (count === choice) taken = { state: successor, name: describe() }
        count += 1
      })
      state = taken.state
      return taken.name
    })
  }

  #progress(): Progress {
    return { depth: this.#depth, states: this.#visited.count, transitions: this.#transitions }
  }
}
