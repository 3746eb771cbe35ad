/** What the page does with an event or an answer that comes late, when what it belongs to is over. */
import type { Route } from 'playwright-core'
import { expect, it } from 'vitest'
import { largestSnapshot, type Stage } from './dashboard-support.ts'
import { scenarioPolicy } from './support.ts'

/** Longer than the page waits for somebody who types. */
const TYPED_MS = 400

export function lateEvents(stageOf: () => Stage): void {
  it('opens a dialog anew at once, before the browser has told that the last one was closed', async () => {
    const stage = stageOf()
    const { page } = stage
    await stage.open('#/policies/e2e/tenants')
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Multiply' }).click()
    await dialog.getByLabel('Reason').fill('of the first')
    // What Escape and Enter come to where the second is read before the event of the first, which is a task of its own.
    await page.evaluate(`new Promise((resolve) => {
      const [dialog] = document.getElementsByTagName('dialog')
      dialog.addEventListener('close', () => setTimeout(resolve, 100))
      dialog.close()
      document.activeElement.click()
    })`)
    expect(await dialog.getByLabel('Reason').inputValue()).toBe('')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Multiply')
    expect(await page.locator('dialog').count()).toBe(0)
  })

  it('leads back from a plan no more while that is being applied', async () => {
    const stage = stageOf()
    const { page } = stage
    await stage.open('#/policies/e2e/tenants')
    await page.getByRole('button', { name: 'Multiply' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('slow')
    await dialog.getByRole('button', { name: 'Show the plan' }).click()
    const held = hold(stage, '**/v1/emergency-actions')
    await dialog.getByRole('button', { name: 'Apply' }).click()
    const route = await (await held).next
    expect(await dialog.getByRole('button', { name: 'Back' }).isDisabled()).toBe(true)
    await route.abort()
    await dialog.getByText('It is not known whether the change was made').waitFor()
    expect(await dialog.getByRole('button', { name: 'Back' }).isEnabled()).toBe(true)
    await page.unrouteAll()
    await page.keyboard.press('Escape')
  })

  it('stays signed in when the token of whoever was signed in before is refused', async () => {
    const stage = stageOf()
    const { token } = await stage.token('earlier', ['quota:read', 'quota:write'])
    const page = await stage.secondPage(token)
    await stage.open('#/policies/e2e/tenants', page)
    await page.getByRole('button', { name: 'Multiply' }).click()
    await page.getByRole('dialog').getByLabel('Reason').fill('slow')
    const held = await hold(stage, '**/v1/emergency-actions?dryRun=true', page)
    await page.getByRole('button', { name: 'Show the plan' }).click()
    const route = await held.next
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await stage.open('#/', page)
    await stage.signIn(stage.plane.admin.token, page)
    const refused = page.waitForResponse((response) => response.status() === 401)
    await route.fulfill({ status: 401, json: { detail: 'revoked' } })
    await (await refused).finished()
    // An answer to what is asked later comes later.
    await page.evaluate(`fetch('/').then((response) => response.text())`)
    expect(await page.evaluate('sessionStorage.length')).toBe(1)
    expect(await page.getByRole('heading', { name: 'Overview' }).count()).toBe(1)
    await page.close()
  })

  it('searches where the page is when the typing ends', async () => {
    const stage = stageOf()
    const { page } = stage
    await stage.open('#/keys?by=denial')
    await page.getByRole('searchbox').waitFor()
    await page.evaluate(`new Promise((resolve) => {
      const input = document.querySelector('input[type=search]')
      input.value = 'acme'
      input.dispatchEvent(new Event('input', { bubbles: true }))
      const links = [...document.getElementsByTagName('a')]
      links.find(({ textContent }) => textContent === 'by use').click()
      setTimeout(resolve, ${TYPED_MS})
    })`)
    expect(new URL(page.url()).hash).toBe('#/keys?by=use&search=acme&seconds=60')
  })

  it('shows nothing of one domain under the name of another', async () => {
    const stage = stageOf()
    await stage.post('/v1/policies', { ...scenarioPolicy('nearby'), domain: 'next' })
    const { token } = await stage.token('both', ['quota:read'], ['e2e', 'next'])
    const page = await stage.secondPage(token)
    await stage.open('#/policies', page)
    await page.getByRole('link', { name: 'e2e / tenants' }).waitFor()
    await page.route('**/v1/policies?*domain=next*', (route) => route.abort())
    await page.getByLabel('Domain').selectOption('next')
    await page.getByText('admin cannot be reached', { exact: true }).waitFor()
    expect(await page.getByRole('link', { name: 'e2e / tenants' }).count()).toBe(0)
    await page.close()
  })

  it('begins its stream anew once it had to ask, which what the stream missed does not continue', async () => {
    expect(await continued(stageOf())).toEqual([undefined, undefined])
    expect(await continued(stageOf(), '**/v1/lags')).toEqual([undefined, 'x-1'])
  })

  it('follows its address also where that changed while the page was being built', async () => {
    const stage = stageOf()
    const page = await stage.context.newPage()
    await page.addInitScript(`new MutationObserver((_, observer) => {
      if (document.querySelector('.head h1')?.textContent !== 'Overview') return
      observer.disconnect()
      location.hash = '#/keys'
    }).observe(document, { childList: true, subtree: true })`)
    await stage.open('', page)
    await page.getByLabel('Token of the admin API').fill(stage.plane.admin.token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Keys of the last minute' }).waitFor()
    await page.close()
  })
}

/** What the first two streams of a page are asked to continue, where each ends after its first word. */
async function continued(stage: Stage, away?: string): Promise<(string | undefined)[]> {
  const page = await stage.context.newPage()
  const asked: (string | undefined)[] = []
  const body = largestSnapshot()
  await page.route('**/v1/stream*', (route) => {
    asked.push(route.request().headers()['last-event-id'])
    return route.fulfill({ contentType: 'text/event-stream', body })
  })
  if (away !== undefined) await page.route(away, (route) => route.abort())
  await stage.open('', page)
  await stage.signIn(stage.plane.admin.token, page)
  await expect.poll(() => asked.length, { timeout: 10_000 }).toBeGreaterThanOrEqual(2)
  await page.close()
  return asked.slice(0, 2)
}

/** Keeps the next request that `pattern` names on its way. */
async function hold(
  { page: own }: Stage,
  pattern: string,
  page = own,
): Promise<{ readonly next: Promise<Route> }> {
  let give: (route: Route) => void = () => {}
  const next = new Promise<Route>((resolve) => {
    give = resolve
  })
  await page.route(pattern, (route) => give(route))
  return { next }
}
