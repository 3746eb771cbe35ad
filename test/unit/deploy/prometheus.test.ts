import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { dashboards, queriesOf } from '../../support/dashboards.ts'

/** Alerts and dashboards rot in silence: a renamed metric makes an alert that never fires. */

const ruleSchema = z.object({
  alert: z.string().optional(),
  record: z.string().optional(),
  expr: z.string(),
  labels: z.record(z.string(), z.string()).default({}),
  annotations: z.record(z.string(), z.string()).default({}),
})
const rulesOf = (file: string) =>
  z
    .object({ groups: z.array(z.object({ rules: z.array(ruleSchema) })) })
    .parse(parse(readFileSync(`deploy/prometheus/${file}`, 'utf8')))
    .groups.flatMap((group) => group.rules)

const alerts = rulesOf('alert-rules.yml')
const recordings = rulesOf('recording-rules.yml')
const runbook = readFileSync('docs/operations.md', 'utf8')
const documented = new Set(
  [
    ...readFileSync('docs/metrics.md', 'utf8').matchAll(/^\| `(quotaplane_\w+)` \| (\w+) \|/gm),
  ].flatMap(([, name = '', type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  ),
)

/** Metrics that a query reads, without the sums that recording rules make (they have colons in their names). */
function metricsOf(expr: string): string[] {
  return [...expr.matchAll(/[a-zA-Z_:][\w:]*/g)]
    .map(([name]) => name)
    .filter((name) => name.startsWith('quotaplane_') && !name.includes(':'))
}

describe('deploy/prometheus', () => {
  it('reads only metrics that docs/metrics.md names', () => {
    const read = [...alerts, ...recordings].flatMap((rule) => metricsOf(rule.expr))
    expect(read.length).toBeGreaterThan(20)
    expect(read.filter((name) => !documented.has(name))).toEqual([])
  })

  it('reads only sums that a recording rule makes', () => {
    const made = recordings.map((rule) => rule.record)
    const queries = [...alerts.map((rule) => rule.expr), ...dashboards().flatMap(queriesOf)]
    const read = queries.flatMap((expr) => expr.match(/\b\w+:quotaplane_\w+:\w+/g) ?? [])
    expect(read.length).toBeGreaterThan(10)
    expect(read.filter((name) => !made.includes(name))).toEqual([])
  })

  it('has for every alert a severity, a section of the runbook and a test', () => {
    const tests = readFileSync('deploy/prometheus/rules.test.yml', 'utf8')
    for (const { alert = '', labels, annotations } of alerts) {
      expect(labels['severity'], alert).toMatch(/^(critical|warning|info)$/)
      expect(annotations['runbook_url']).toBe(`docs/operations.md#${alert.toLowerCase()}`)
      expect(runbook).toMatch(
        new RegExp(`^### ${alert}\n\n- Meaning: .+\n- Check: .+\n- Act: .+$`, 'm'),
      )
      expect(tests).toContain(`alertname: ${alert}\n`)
    }
  })

  it('has no section of the runbook without its alert', () => {
    const sections = [...runbook.matchAll(/^### (Quotaplane\w+)$/gm)].map(([, name]) => name)
    expect(sections.sort()).toEqual(alerts.map((rule) => rule.alert).sort())
  })
})

describe('deploy/grafana', () => {
  it('is the overview, a region, a policy and the sync protocol', () => {
    expect(readdirSync('deploy/grafana/dashboards').sort()).toEqual(
      ['overview.json', 'policy.json', 'region.json', 'sync.json'].sort(),
    )
  })

  it.each(dashboards())('$uid reads only metrics that docs/metrics.md names', (dashboard) => {
    const read = queriesOf(dashboard).flatMap(metricsOf)
    expect(read.filter((name) => !documented.has(name))).toEqual([])
  })

  it.each(dashboards())(
    '$uid asks the provisioned data source, and says what each panel shows',
    (dashboard) => {
      const source = parse(
        readFileSync('deploy/grafana/provisioning/datasources/prometheus.yml', 'utf8'),
      ) as { datasources: { uid: string }[] }
      for (const panel of dashboard.panels.filter(({ type }) => type !== 'row')) {
        expect(panel.title).not.toBe('')
        expect(panel.datasource?.uid).toBe(source.datasources[0]?.uid)
        expect(panel.targets.length, panel.title).toBeGreaterThan(0)
      }
    },
  )
})
