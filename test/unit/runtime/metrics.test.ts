import { readFileSync } from 'node:fs'
import { Counter, Histogram, Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { counter, createRegistry, gauge, joinFamilies } from '../../../shared/runtime/metrics.ts'
import { Durations, Tally } from '../../../shared/runtime/tally.ts'

const COMMON = { region: 'us-east-1', worker: '2' }
const BUCKETS = [0.001, 0.01, 0.1]
const SECONDS = [0.0005, 0.001, 0.05, 3, 0.0101]
const ODD = 'a"b\\c\nd'

/** The same metrics with the same figures, by this project's own text and by prom-client's. */
function both(type: 'prometheus' | 'openmetrics' = 'prometheus') {
  const ours = createRegistry(COMMON, false)
  const theirs = new Registry()
  if (type === 'openmetrics') {
    for (const registry of [ours, theirs]) {
      const format: string = Registry.OPENMETRICS_CONTENT_TYPE
      Reflect.apply(registry.setContentType, registry, [format])
    }
  }
  const named = { name: 'checks_total', help: 'Checks.' }
  const tally = new Tally(ours, { ...named, labels: ['policy', 'outcome'] })
  tally.cell({ policy: ODD, outcome: 'allowed' }).count = 7
  tally.cell({ policy: 'plain', outcome: 'denied' })
  new Tally(ours, { name: 'all_total', help: 'All.' }).cell({}).count = 3
  const durations = new Durations(ours, { name: 'took', help: 'Time.', buckets: BUCKETS })
  for (const seconds of SECONDS) durations.add(seconds)

  counter(ours, { name: 'plain_total', help: 'Plain.', labelNames: ['a'] }).inc({ a: ODD }, 2)
  theirs.setDefaultLabels(COMMON)
  const registers = [theirs]
  const checks = new Counter({ ...named, labelNames: ['policy', 'outcome'], registers })
  checks.inc({ policy: ODD, outcome: 'allowed' }, 7)
  checks.inc({ policy: 'plain', outcome: 'denied' }, 0)
  new Counter({ name: 'all_total', help: 'All.', registers }).inc(3)
  const histogram = new Histogram({ name: 'took', help: 'Time.', buckets: BUCKETS, registers })
  for (const seconds of SECONDS) histogram.observe(seconds)
  new Counter({ name: 'plain_total', help: 'Plain.', labelNames: ['a'], registers }).inc(
    { a: ODD },
    2,
  )
  return { ours, theirs }
}

describe('a metric that writes its own lines', () => {
  it.each(['prometheus', 'openmetrics'] as const)(
    'writes what prom-client would write of it as %s, however often it is read',
    async (format) => {
      const { ours, theirs } = both(format)
      const expected = await theirs.metrics()
      expect(await ours.metrics()).toBe(expected)
      expect(await ours.metrics()).toBe(expected)
    },
  )

  it('gives the same values as objects', async () => {
    const { ours, theirs } = both()
    const valuesOf = async (registry: Registry) =>
      (await registry.getMetricsAsJSON()).map(({ name, type, values }) => {
        const plain = values.map(({ labels, value }) => ({
          labels: Object.fromEntries(
            Object.entries(labels).map(([key, label]) => [key, String(label)]),
          ),
          value,
        }))
        return { name, type, values: plain }
      })
    expect(await valuesOf(ours)).toEqual(await valuesOf(theirs))
  })

  it('has all of its series before anything is counted', async () => {
    const registry = createRegistry({}, false)
    new Tally(registry, { name: 'n_total', help: 'N.', labels: ['a'] }).cell({ a: 'x' })
    expect(await registry.metrics()).toBe(
      '# HELP n_total N.\n# TYPE n_total counter\nn_total{a="x"} 0\n',
    )
  })
})

describe('the metrics of several processes', () => {
  it('are one text that has each metric once, with the series of all', async () => {
    const families = await Promise.all(
      ['1', '2'].map((worker) => {
        const registry = createRegistry({ worker }, false)
        new Tally(registry, { name: 'n_total', help: 'N.' }).cell({}).count = Number(worker)
        gauge(registry, { name: 'g', help: 'G.' }).set(5)
        return registry.families()
      }),
    )
    expect(createRegistry({}, false).textOf(joinFamilies(families))).toBe(
      [
        '# HELP n_total N.',
        '# TYPE n_total counter',
        'n_total{worker="1"} 1',
        'n_total{worker="2"} 2',
        '',
        '# HELP g G.',
        '# TYPE g gauge',
        'g{worker="1"} 5',
        'g{worker="2"} 5',
        '',
      ].join('\n'),
    )
    expect(joinFamilies([])).toEqual([])
  })
})

describe('a service', () => {
  it('says which program it is, and tests without its defaults do not', async () => {
    const text = await createRegistry({ service: 'admin' }, true).metrics()
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
    expect(text).toContain(
      `quotaplane_build_info{version="${version}",node="${process.version}",service="admin"} 1\n`,
    )
    expect(await createRegistry({}, false).metrics()).toBe('\n')
  })
})
