import { splitBase } from '../../../shared/core/base-split.ts'
import { lowMark } from '../../../shared/core/stock/asking.ts'
import {
  addAllotment,
  isLow,
  type OpenedWindow,
  type StockState,
  settleStock,
  storeStock,
  takeStock,
} from '../../../shared/core/stock/counter.ts'
import { type Asked, allot, floorsOf, type Tokens } from '../../../shared/core/stock/pool.ts'
import { randomOf } from '../../support/random.ts'

/** Rules, each of which lets a window be overspent when it is left out. */
export const STOCK_MUTANTS = {
  'own-memory': "admin believes a region's own memory of what it was allotted",
  'before-durable': 'a region spends what it asked for before Postgres has it',
  'floors-not-pinned': 'floors of a long window follow the split of the day',
  'floors-free': 'floors of a long window are not set aside in the pool',
  'counts-survive-boot':
    'a Redis that restarted believes the counts of a long window that it finds',
  'blind-as-fresh':
    'a counter that is gone has spent nothing of a window that is older than the boot',
  'unknown-as-zero': 'what was allotted before a boot does not count as spent after it',
  'question-after-answer':
    'a question about a long window is asked again by its name though it was answered',
  'any-question-repeated': 'admin takes any question of a region for the one that it answered last',
  'answer-across-sessions':
    'an allotment is used in another session than the one that asked for it',
} as const

export type Mutant = keyof typeof STOCK_MUTANTS

interface Answer {
  readonly region: number
  readonly fence: number
  readonly startUs: number
  readonly question: string
  readonly from: number
  readonly to: number
}

type Ask = Omit<Answer, 'from' | 'to'> & { readonly want: number; readonly have: number }

interface Region {
  readonly name: string
  /** How far its clock is off. */
  readonly skewUs: number
  /** What Redis holds; `saved` is what a restart goes back to. */
  redis: {
    boot: number
    startUs: number
    fence: number
    serving: boolean
    state: StockState | null
  }
  saved: StockState | null
  /** The daemon's session, and the one of a daemon that it replaced and that may still be alive. */
  fence: number
  /** Name of the question that got no answer yet. */
  question: string | null
  readonly opened: Map<number, OpenedWindow>
}

/** Steps of one run. */
export const STOCK_STEPS = 600

const WINDOW_US = 1_000_000
const SKEW_US = 2_000

/** A window of which more was spent than it has. */
export class Overspent extends Error {}

/** One counter of one limit over a few regions under random faults; throws when a window was overspent. */
export function runStock(
  seed: number,
  steps: number,
  mutant: Mutant | null,
): { readonly spent: number } {
  const { random, acts, spent } = openStock(seed, mutant)
  const { spend, ask, answer, receive, open, lose, resplit, fault, serve, pass } = acts
  const actions = [
    ...[spend, spend, spend],
    ...[ask, answer, receive, open, lose, resplit, fault, serve, pass],
  ]
  for (let step = 0; step < steps; step++) random.pick(actions)()
  return { spent: spent() }
}

/** The same by acts that the caller chooses; the seed decides who acts and how. */
export function openStock(seed: number, mutant: Mutant | null) {
  const random = randomOf(seed)
  const chance = (percent: number): boolean => random.below(100) < percent
  const names = ['a', 'b', 'c', 'd'].slice(0, 2 + random.below(3))
  const capacity = 3 + random.below(40)
  const floorPercent = random.pick([0, 2, 10, 50, 100])
  const newSplit = () =>
    splitBase(Object.fromEntries(names.map((name) => [name, 1 + random.below(5)])), capacity)
  let split = newSplit()
  let nowUs = 10 * WINDOW_US
  let fences = 0
  let questions = 0
  let isPostgresUp = true
  const pinned = new Map<number, Tokens>()
  const rows = new Map<number, Record<string, number>>()
  const lastAsked = new Map<number, Readonly<Record<string, Asked>>>()
  const spentIn = new Map<number, number>()
  let asks: Ask[] = []
  let answers: Answer[] = []
  const floors = (): Tokens => floorsOf({ capacity, floorPercent, base: split })

  const regions: Region[] = names.map((name) => {
    fences += 1
    return {
      name,
      skewUs: random.below(2 * SKEW_US) - SKEW_US,
      redis: { boot: 0, startUs: 0, fence: fences, serving: true, state: null },
      saved: null,
      fence: fences,
      question: null,
      opened: new Map(),
    }
  })

  const timeOf = (region: Region): number => nowUs + region.skewUs
  const settle = (region: Region) => {
    const windows = [...region.opened.values()].map((window) =>
      mutant === 'floors-not-pinned' ? { ...window, floor: floors()[region.name] ?? 0 } : window,
    )
    const { state, boot, startUs } = region.redis
    const isFresh = mutant === 'blind-as-fresh' && state === null
    const believed = mutant === 'counts-survive-boot' && state !== null ? state.boot : boot
    return settleStock(state, {
      windows,
      boot: { number: believed, startUs: isFresh ? 0 : startUs, recovering: false },
      nowUs: timeOf(region),
    })
  }

  const open = (region: Region): void => {
    if (!isPostgresUp) return
    const startUs = Math.floor(timeOf(region) / WINDOW_US) * WINDOW_US
    const pin = pinned.get(startUs) ?? floors()
    pinned.set(startUs, pin)
    region.opened.clear()
    region.opened.set(startUs, {
      startUs,
      endUs: startUs + WINDOW_US,
      floor: pin[region.name] ?? 0,
    })
  }

  const spend = (region: Region): void => {
    const settled = settle(region)
    const cost = 1 + random.below(2)
    if (!region.redis.serving || settled.window === null || cost > settled.remaining) return
    region.redis.state = { ...storeStock(takeStock(settled, cost)), boot: region.redis.boot }
    const { startUs } = settled.window
    const spent = (spentIn.get(startUs) ?? 0) + cost
    spentIn.set(startUs, spent)
    if (spent > capacity) throw new Overspent(`seed ${seed}: ${spent} of ${capacity} were spent`)
  }

  const add = (region: Region, answer: Answer, low: number | null): void => {
    const from = mutant === 'unknown-as-zero' ? 0 : answer.from
    const after = addAllotment(settle(region), { ...answer, from, low })
    if (after === null || !region.redis.serving) return
    region.redis.state = { ...storeStock(after), boot: region.redis.boot }
  }

  const ask = (region: Region): void => {
    const settled = settle(region)
    if (settled.window === null || !(isLow(settled) || chance(10))) return
    const { startUs } = settled.window
    const have = settled.allotted ?? 0
    const want = 1 + random.below(4)
    region.question ??= `question ${++questions}`
    const { fence, question } = region
    asks.push({ region: regions.indexOf(region), fence, question, startUs, want, have })
    if (mutant !== 'before-durable') return
    add(region, { region: 0, fence: 0, question, startUs, from: have, to: have + want }, 0)
  }

  const answerOne = (): void => {
    const asked = asks[random.below(asks.length)]
    if (asked === undefined || !isPostgresUp) return
    if (!chance(20)) asks = asks.filter((other) => other !== asked)
    answer(asked)
  }

  const setAside = (startUs: number): Tokens => {
    if (mutant === 'floors-free') return {}
    return mutant === 'floors-not-pinned' ? floors() : (pinned.get(startUs) ?? {})
  }

  /** The admin's transaction. */
  const answer = (asked: Ask): void => {
    const name = names[asked.region] ?? ''
    const row = rows.get(asked.startUs) ?? {}
    const known = mutant === 'own-memory' ? { ...row, [name]: asked.have } : row
    const last = lastAsked.get(asked.startUs) ?? {}
    const pool = { capacity, floors: setAside(asked.startUs), allotted: known, asked: last }
    const question =
      mutant === 'any-question-repeated' && chance(50) ? last[name]?.question : asked.question
    const given = allot(pool, { region: name, want: asked.want, question })
    rows.set(asked.startUs, { ...known, [name]: given.to })
    const { from } = given
    if (given.to > from) {
      lastAsked.set(asked.startUs, { ...last, [name]: { question: asked.question, from } })
    }
    answers.push({ ...asked, ...given })
  }

  const noteAnswered = (region: Region, question: string): void => {
    if (mutant === 'question-after-answer' || region.question !== question) return
    region.question = null
  }

  const receiveOne = (): void => {
    const answer = answers[random.below(answers.length)]
    const region = answer === undefined ? undefined : regions[answer.region]
    if (answer === undefined || region === undefined) return
    if (!chance(60)) answers = answers.filter((other) => other !== answer)
    // A daemon drops what an earlier session asked for; the store refuses a daemon with an earlier fence.
    if (mutant !== 'answer-across-sessions' && answer.fence !== region.redis.fence) return
    add(region, answer, lowMark(answer))
    noteAnswered(region, answer.question)
  }

  /** A daemon opens the store: after a loss it begins a new boot, and only then are checks served. */
  const openStore = (region: Region, isLost: boolean): void => {
    fences += 1
    region.fence = fences
    region.redis.fence = fences
    if (isLost) region.redis = { ...region.redis, boot: fences, startUs: timeOf(region) + 1 }
    region.redis.serving = true
  }

  const fault = (region: Region): void => {
    switch (random.below(5)) {
      case 0:
        region.redis = { ...region.redis, state: null, serving: false }
        region.saved = null
        break
      case 1:
        region.redis = { ...region.redis, state: region.saved, serving: false }
        break
      case 2:
        if (region.redis.serving) openStore(region, false)
        break
      case 3:
        isPostgresUp = !isPostgresUp
        break
      default:
        region.saved = region.redis.state
    }
  }

  const acts = {
    spend: () => spend(random.pick(regions)),
    ask: () => ask(random.pick(regions)),
    answer: () => answerOne(),
    receive: () => receiveOne(),
    open: () => open(random.pick(regions)),
    lose: () => {
      asks = asks.filter(() => !chance(20))
      answers = answers.filter(() => !chance(10))
    },
    resplit: () => {
      if (chance(20)) split = newSplit()
    },
    fault: () => {
      if (chance(40)) fault(random.pick(regions))
    },
    serve: () => {
      for (const region of regions) if (!region.redis.serving && chance(50)) openStore(region, true)
    },
    pass: () => {
      if (chance(30)) isPostgresUp = true
      nowUs += random.below(WINDOW_US / 40)
    },
  }
  const spent = (): number => [...spentIn.values()].reduce((all, one) => all + one, 0)
  return { random, acts, spent }
}
