/** What an operator does to a limit from the page beside editing it. */
import { expect, it } from 'vitest'
import type { Stage } from './dashboard-support.ts'
import { REGIONS } from './support.ts'

const [US, EU] = REGIONS

export function pinAndReset(stageOf: () => Stage): void {
  it('pins a limit to another split and ends that, and resets it, each after seeing the plan', async () => {
    const stage = stageOf()
    const { page } = stage
    await stage.open('#/policies/e2e/tenants')
    await page.getByRole('button', { name: 'Pin split' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel(`Part of ${US}`).fill('90')
    await dialog.getByLabel(`Part of ${EU}`).fill('10')
    expect(await stage.planAndApply('failover')).toMatch(/360.*540/)
    await dialog.getByRole('button', { name: 'Close' }).click()
    await stage.open('#/')
    const row = page.getByRole('row', { name: `Pin split per-second ${EU} 10 %, ${US} 90 %` })
    await row.getByRole('button').click()
    await stage.planAndApply('back')
    await dialog.getByRole('button', { name: 'Close' }).click()
    await stage.open('#/policies/e2e/tenants')
    await page.getByRole('button', { name: 'Reset limit' }).click()
    await stage.planAndApply('test traffic counted')
    await stage.closeWhenInForce()
    await stage.open('#/changes')
    await page.getByRole('row', { name: 'policy.reset e2e/tenants' }).waitFor()
  })
}
