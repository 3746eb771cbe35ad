/** Everything that may happen to a few regions, in any order and any number of times. */
import fc from 'fast-check'
import { type Play, REGIONS, type Region } from './play.ts'

type Act = (play: Play) => void

/** One thing that happens, named so that a failure can be read. */
class Command implements fc.Command<object, Play> {
  readonly #name: string
  readonly #act: Act

  constructor(name: string, act: Act) {
    this.#name = name
    this.#act = act
  }

  check(): boolean {
    return true
  }

  run(_model: object, play: Play): void {
    play.do(this.#act)
  }

  toString(): string {
    return this.#name
  }
}

function command<Value>(
  name: string,
  value: fc.Arbitrary<Value>,
  act: (play: Play, value: Value) => void,
): fc.Arbitrary<Command> {
  return value.map((one) => new Command(`${name} ${JSON.stringify(one)}`, (play) => act(play, one)))
}

const region = fc.constantFrom<Region>(...REGIONS)
const link = fc.tuple(region, region)
const downMs = fc.constantFrom(50, 1_000, 5_000)
const pass = command('pass', fc.constantFrom(50, 300, 1_000, 2_500, 5_000, 11_000), (play, ms) =>
  play.pass(ms),
)
/** All ask for little but one: loans go there. */
const swing = command('swing to', region, (play, of) => play.swing(of))
const ask = command(
  'demand',
  fc.record({ region, part: fc.constantFrom(0, 0.02, 0.3, 0.9, 2) }),
  (play, { region: of, part }) => play.ask(of, part),
)

/** Weighted by being there more than once: without time and demand nothing moves. */
export const COMMANDS: fc.Arbitrary<Command>[] = [
  ...Array.from({ length: 12 }, () => pass),
  ...Array.from({ length: 6 }, () => swing),
  ask,
  ask,
  command('measure and tick', region, (play, of) =>
    play.ifUp(of, () => {
      play.world.site(of).daemon.measure()
      play.world.site(of).daemon.tick()
    }),
  ),
  command('bring again', fc.record({ age: fc.nat({ max: 90 }), to: region }), (play, { age, to }) =>
    play.ifUp(to, () => play.world.network.bringAgain(age, to)),
  ),
  command('lose records', fc.constantFrom(0.3, 1), (play, loss) => play.weather({ loss })),
  command('double records', fc.constant(0.5), (play, repeat) => play.weather({ repeat })),
  command('reorder records', fc.constantFrom(200, 2_000), (play, jitterMs) =>
    play.weather({ jitterMs, straggle: 0.05 }),
  ),
  command('fair links', fc.constant(null), (play) => play.weather({})),
  command('cut', link, (play, [from, to]) => play.world.network.cut(from, to)),
  command('cut both ways', link, (play, [from, to]) => play.world.network.cutBoth(from, to)),
  command('heal one way', link, (play, [from, to]) => play.world.network.healOne(from, to)),
  command('heal', fc.constant(null), (play) => play.world.network.heal()),
  command('crash daemon', fc.record({ region, downMs }), (play, { region: of, downMs: ms }) =>
    play.ifUp(of, () => play.world.crashDaemon(of, ms)),
  ),
  command('take over', region, (play, of) => play.ifUp(of, () => play.world.takeOver(of))),
  command('lose memory', fc.record({ region, downMs }), (play, { region: of, downMs: ms }) =>
    play.ifUp(of, () => play.world.loseRegion(of, ms)),
  ),
  command('wipe Redis', region, (play, of) => play.ifUp(of, () => play.world.restartStore(of))),
  command('change limit', fc.constantFrom(0.3, 0.7, 1.5, 3), (play, factor) => play.resize(factor)),
  command('reset usage', fc.constant(null), (play) => play.reset()),
  command('split', fc.tuple(...REGIONS.map(() => fc.nat({ max: 9 }))), (play, parts) =>
    play.split(Object.fromEntries(play.regions.map((of, place) => [of, parts[place] ?? 0]))),
  ),
  command('drain', region, (play, of) => {
    if (play.regions.includes(of)) play.splitBut(of, 0)
  }),
  command('resume', region, (play, of) => {
    if (play.regions.includes(of)) play.splitBut(of, 300_000)
  }),
  command('remove', region, (play, of) => {
    if (play.regions.length > 2) play.ifUp(of, () => play.world.removeRegion(of, 15_000))
  }),
]
