import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, chromium, type Page } from 'playwright-core'
import { findOrInstall } from '../../services/cli/plane/programs.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The system's Chromium without a window; as root it runs only without its sandbox. */
export async function startBrowser(): Promise<Browser> {
  const isRoot = process.getuid?.() === 0
  const executablePath = await findOrInstall('chromium', {
    env: process.env,
    isRoot,
    say: (line) => process.stderr.write(`${line}\n`),
  })
  return await chromium.launch({ executablePath, args: isRoot ? ['--no-sandbox'] : [] })
}

/** What axe-core finds wrong with the page, a line each. The page must have been opened with `bypassCSP`. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(AXE)
  const found = (await page.evaluate(`axe.run({ resultTypes: ['violations'] })`)) as {
    violations: { id: string; help: string; nodes: { html: string }[] }[]
  }
  return found.violations.map(({ id, help, nodes }) => `${id}: ${help} ${nodes[0]?.html ?? ''}`)
}
