import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Plane } from '../../services/cli/plane/topology.ts'
import { accessibilityProblems, startBrowser } from '../support/browser.ts'
import { CAPACITY, localPlane, REGIONS, scenarioPolicy } from './support.ts'

const [US, EU] = REGIONS
const POLICY = 'dashboard'
const KEY = `scenario=${POLICY}`

let plane: Plane
let browser: Browser
let page: Page
const errors: string[] = []

beforeAll(async () => {
  ;[plane, browser] = await Promise.all([localPlane(), startBrowser()])
  const created = await fetch(`${plane.admin.url}/v1/policies`, {
    method: 'POST',
    headers: { authorization: `Bearer ${plane.admin.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(scenarioPolicy(POLICY)),
  })
  expect(created.status).toBe(201)
  const context = await browser.newContext({ bypassCSP: true })
  page = await context.newPage()
  page.on('pageerror', (err) => errors.push(err.message))
}, 300_000)

afterAll(async () => {
  await browser?.close()
  await plane?.stop()
})

const open = async (hash: string): Promise<void> => {
  await page.goto(`${plane.admin.url}/${hash}`)
}

/** Asks one region for `perSecond` checks until it is told to stop. */
function askFor(region: string, perSecond: number): () => Promise<void> {
  const url = plane.regions.find((one) => one.region === region)?.enforcers[0]?.url
  const body = JSON.stringify({
    domain: 'e2e',
    descriptors: [{ entries: [{ key: 'scenario', value: POLICY }] }],
    cost: 10,
  })
  const headers = { 'content-type': 'application/json' }
  const waiting = new Set<Promise<unknown>>()
  const timer = setInterval(() => {
    const one = fetch(`${url}/v1/check`, { method: 'POST', headers, body }).then((r) => r.text())
    waiting.add(one)
    void one.finally(() => waiting.delete(one))
  }, 10_000 / perSecond)
  return async () => {
    clearInterval(timer)
    await Promise.allSettled(waiting)
  }
}

/** The share that the page's table gives a region, in tokens. */
async function shownShare(region: string): Promise<number> {
  const cell = page.getByRole('row', { name: region }).getByRole('cell').first()
  return Number((await cell.textContent())?.replaceAll(',', ''))
}

describe('the dashboard', { timeout: 60_000 }, () => {
  it('asks for a token, and says why one is not taken', async () => {
    await open('')
    await page.getByLabel('Token of the admin API').fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch(/token/i)
    expect(await accessibilityProblems(page)).toEqual([])
    await page.getByLabel('Token of the admin API').fill(plane.admin.token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    await page.getByText('applied in every region').waitFor()
  })

  it('shows the split move to the region that needs it, and back, and never over the limit', async () => {
    await open(`#/policies/e2e/${POLICY}?key=${encodeURIComponent(KEY)}`)
    const stopUs = askFor(US, 2 * CAPACITY)
    await expect.poll(() => shownShare(US), { timeout: 20_000 }).toBeGreaterThan(0.8 * CAPACITY)
    await page.getByRole('row', { name: `${EU} ${US}` }).waitFor()
    await stopUs()
    const stopEu = askFor(EU, 2 * CAPACITY)
    await expect.poll(() => shownShare(EU), { timeout: 20_000 }).toBeGreaterThan(0.8 * CAPACITY)
    await stopEu()
    expect(await page.getByText('over the limit: this is a bug').count()).toBe(0)
    expect(await accessibilityProblems(page)).toEqual([])
  })

  it('names the key that is denied, and leads to why', async () => {
    const stop = askFor(US, 3 * CAPACITY)
    await open('#/')
    const row = page.getByRole('row', { name: KEY })
    await row.waitFor({ timeout: 20_000 })
    expect(await row.textContent()).toContain(US)
    await row.getByRole('link').click()
    await page.getByText('hungry: denies, and could use more').waitFor({ timeout: 20_000 })
    await stop()
  })

  it('shows a cut region as cut within a few seconds, and as back once it is', async () => {
    await open('#/')
    await expect.poll(() => page.getByText('reporting').count()).toBe(2)
    plane.links.cut(EU, US)
    plane.links.cut(US, EU)
    // Admin hears the region whose NATS it is connected to; the other is the one that is cut off from here.
    await page.getByText('cut off').waitFor({ timeout: 4_500 })
    expect(await accessibilityProblems(page)).toEqual([])
    plane.links.healAll()
    await expect.poll(() => page.getByText('reporting').count(), { timeout: 15_000 }).toBe(2)
  })

  it('has no problem of accessibility on any view, in light, dark and narrow', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      for (const hash of ['#/', '#/policies', '#/keys?by=denial', '#/changes']) {
        await open(hash)
        await page.getByText('Live', { exact: false }).first().waitFor()
        expect(await accessibilityProblems(page), `${hash} ${colorScheme}`).toEqual([])
      }
    }
    await page.setViewportSize({ width: 360, height: 740 })
    for (const hash of ['#/', `#/policies/e2e/${POLICY}`, '#/keys', '#/changes']) {
      await open(hash)
      await page.getByRole('heading').first().waitFor()
      const width = await page.evaluate('document.documentElement.scrollWidth')
      expect(width, hash).toBeLessThanOrEqual(360)
    }
  })

  it('runs nothing that its policy of content does not allow, and throws no error', async () => {
    const answer = await fetch(plane.admin.url)
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'")
    const strict = await (await browser.newContext()).newPage()
    const refused: string[] = []
    strict.on('console', (message) => {
      if (/Content Security Policy/.test(message.text())) refused.push(message.text())
    })
    await strict.goto(plane.admin.url)
    await strict.getByLabel('Token of the admin API').fill(plane.admin.token)
    await strict.getByRole('button', { name: 'Sign in' }).click()
    await strict.getByRole('heading', { name: 'Overview' }).waitFor()
    await strict.close()
    expect(refused).toEqual([])
    expect(errors).toEqual([])
  })
})
