import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

const FOLDER = 'deploy/grafana/dashboards'

const panelSchema = z.object({
  type: z.string(),
  title: z.string(),
  datasource: z.object({ uid: z.string() }).optional(),
  targets: z.array(z.object({ expr: z.string() })).default([]),
})
const dashboardSchema = z.object({
  uid: z.string(),
  panels: z.array(panelSchema),
  annotations: z.object({ list: z.array(z.object({ expr: z.string() })) }),
})

export type Dashboard = z.infer<typeof dashboardSchema>

/** The dashboards of Grafana that the repository provisions. */
export function dashboards(): readonly Dashboard[] {
  return readdirSync(FOLDER).map((file) =>
    dashboardSchema.parse(JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))),
  )
}

/** Every query of a dashboard, with what Grafana puts in place of its variables. */
export function queriesOf(dashboard: Dashboard): readonly string[] {
  return [
    ...dashboard.panels.flatMap((panel) => panel.targets.map((target) => target.expr)),
    ...dashboard.annotations.list.map((annotation) => annotation.expr),
  ].map((expr) => expr.replaceAll(/\$(region|policy)\b/g, '.*'))
}
