import { describe, expect, it } from 'vitest'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'

/** Names with everything that a label value may hold and a policy's name may not. */
const NAMES = [
  'api/plain',
  'shop.example_v1/a-b',
  'a:b/c',
  'quote"/d',
  'back\\slash/e',
  'new\nline/f',
  'naïve ☕/g',
  '}{,=/h',
]

/** A line of Prometheus' text format: name, labels in braces, value. */
const SERIES =
  /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"/g

function unescaped(text: string): string {
  return text.replace(/\\(["\\n])/g, (_all, char: string) => (char === 'n' ? '\n' : char))
}

interface Series {
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
}

/** The series of a text, as Prometheus reads them; throws where a line is none. */
function seriesOf(text: string): readonly Series[] {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => {
    const [, name, labels = ''] = SERIES.exec(line) ?? []
    if (name === undefined) throw new Error(`no series: ${line}`)
    const pairs = [...labels.matchAll(LABEL)].map(
      ([, label = '', value = '']) => [label, unescaped(value)] as const,
    )
    return { name, labels: new Map(pairs) }
  })
}

describe('what an enforcer shows to Prometheus', () => {
  it('can be read whatever its policies are called, one series for each (B160)', async () => {
    const registry = createRegistry({ region: 'us-east-1' }, false)
    const metrics = createEnforcerMetrics(registry)
    for (const name of NAMES) metrics.cellsOf(name).watched('shadow').allowed.count++
    const shadows = seriesOf(await registry.metrics()).filter(
      ({ labels }) => labels.get('kind') === 'shadow' && labels.get('outcome') === 'allowed',
    )
    expect(shadows.map(({ labels }) => labels.get('policy')).sort()).toEqual([...NAMES].sort())
  })
})
