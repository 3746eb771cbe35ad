/** What the tests of the page share: a plane, a browser, and the load that makes something to be seen. */
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { request } from 'undici'
import { expect } from 'vitest'
import type { Plane } from '../../services/cli/plane/topology.ts'
import { startBrowser } from '../support/browser.ts'
import { localPlane, REGIONS, scenarioPolicy } from './support.ts'

export const POLICY = 'dashboard'

/** The key of the load. */
export const KEY = `scenario=${POLICY}`

export class Stage {
  readonly plane: Plane
  readonly browser: Browser
  readonly context: BrowserContext
  readonly page: Page
  /** What went wrong in any page of the stage. */
  readonly errors: string[]

  private constructor(parts: {
    readonly plane: Plane
    readonly browser: Browser
    readonly context: BrowserContext
    readonly page: Page
    readonly errors: string[]
  }) {
    this.plane = parts.plane
    this.browser = parts.browser
    this.context = parts.context
    this.page = parts.page
    this.errors = parts.errors
  }

  static async start(): Promise<Stage> {
    const [plane, browser] = await Promise.all([localPlane(), startBrowser()])
    const errors: string[] = []
    // axe-core is put into the page, which its policy of content would refuse.
    const context = await browser.newContext({ bypassCSP: true })
    context.setDefaultTimeout(20_000)
    context.on('weberror', (err) => errors.push(err.error().message))
    const page = await context.newPage()
    return new Stage({ plane, browser, context, page, errors })
  }

  async stop(): Promise<void> {
    await this.browser.close()
    await this.plane.stop()
  }

  async open(hash: string, page = this.page): Promise<void> {
    await page.goto(`${this.plane.admin.url}/${hash}`)
  }

  async signIn(token = this.plane.admin.token, page = this.page): Promise<void> {
    await page.getByLabel('Token of the admin API').fill(token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
  }

  /** A page of its own, signed in. */
  async secondPage(token: string): Promise<Page> {
    const page = await this.context.newPage()
    await this.open('', page)
    await this.signIn(token, page)
    return page
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    const response = await fetch(`${this.plane.admin.url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.plane.admin.token}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    })
    expect(response.status, path).toBe(201)
    return (await response.json()) as T
  }

  async createPolicies(): Promise<void> {
    await this.post('/v1/policies', scenarioPolicy(POLICY))
    await this.post('/v1/policies', {
      ...scenarioPolicy('tenants'),
      match: [{ key: 'tenant' }],
    })
  }

  async token(name: string, scopes: readonly string[], domains?: readonly string[]) {
    const body = { name, scopes, ...(domains && { domains }) }
    return await this.post<{ id: string; token: string }>('/v1/tokens', body)
  }

  async revoke(id: string): Promise<void> {
    const response = await fetch(`${this.plane.admin.url}/v1/tokens/${id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${this.plane.admin.token}` },
    })
    expect(response.status).toBe(200)
  }

  /** Asks one region once; whether it was let through. */
  async check(region: string, entry: { key: string; value: string }, cost: number) {
    const url = this.plane.regions.find((one) => one.region === region)?.enforcers[0]?.url
    const response = await fetch(`${url}/v1/check`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ domain: 'e2e', descriptors: [{ entries: [entry] }], cost }),
    })
    const { allowed } = (await response.json()) as { allowed: boolean }
    return allowed
  }

  /** Asks one region for `perSecond` tokens of KEY until it is told to stop. */
  askFor(region: string, perSecond: number): () => Promise<void> {
    const waiting = new Set<Promise<unknown>>()
    const timer = setInterval(() => {
      const one = this.check(region, { key: 'scenario', value: POLICY }, 10)
      waiting.add(one)
      void one.finally(() => waiting.delete(one))
    }, 10_000 / perSecond)
    return async () => {
      clearInterval(timer)
      await Promise.allSettled(waiting)
    }
  }

  /** The share that the page's table gives a region, in tokens. */
  async shownShare(region: string): Promise<number> {
    const table = this.page.getByRole('region', { name: `Shares of ${KEY} by region` })
    const cell = table.getByRole('row', { name: region }).getByRole('cell').first()
    return Number((await cell.textContent())?.replaceAll(',', ''))
  }

  /** Fills the dialog that is open, looks at the plan, and applies it. */
  async planAndApply(reason: string, page = this.page): Promise<string> {
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill(reason)
    await dialog.getByRole('button', { name: 'Show the plan' }).click()
    await dialog.getByRole('heading', { name: 'What it would change' }).waitFor()
    const plan = (await dialog.textContent()) ?? ''
    await dialog.getByRole('button', { name: 'Apply' }).click()
    await dialog.getByText('Done, as revision').waitFor()
    return plan
  }

  /** Closes the dialog once what it did is in force in every region. */
  async closeWhenInForce(): Promise<void> {
    const dialog = this.page.getByRole('dialog')
    const regions = this.plane.regions.length
    await expect
      .poll(() => dialog.getByText('in force in').count(), { timeout: 15_000 })
      .toBe(regions)
    await dialog.getByRole('button', { name: 'Close' }).click()
    await dialog.waitFor({ state: 'detached' })
  }
}

/** A snapshot as large as admin makes one: 200 limits with 20 hot keys each. */
export function largestSnapshot(): string {
  const part = { units: 500_000, tokens: 2_000 }
  const regions = REGIONS.map((region) => ({
    ...{ region, share: part, base: part, lent: 0, borrowed: 0, demandPerSecond: 1_500 },
    ...{ isHungry: false, admitted: 1_000, denied: 0, returned: 0, ageMs: 300 },
  }))
  const at = new Date().toISOString()
  const limits = Array.from({ length: 200 }, (_, i) => ({
    ...{ domain: 'e2e', policy: `p${i}`, limit: 'per-second', limitId: 1_000 + i },
    ...{ capacity: 4_000, windowMs: 1_000, burst: 4_000, epoch: 1, isEpochOpen: false, base: {} },
    keys: Array.from({ length: 20 }, (_, j) => ({ key: `tenant=t${i}-${j}`, regions, loans: [] })),
    keysLeftOut: 1_000_000,
  }))
  const snapshot = {
    ...{ at, revision: 1, rollout: null, shares: { at, limits }, usage: { limits: [] } },
    regions: { at, admin: { bus: 'up', database: 'up' }, regions: [], pairs: [] },
  }
  return `id: x-1\nevent: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`
}

/** Bytes of an answer that came compressed. */
export async function compressedLength(url: string): Promise<number> {
  const { headers, body } = await request(url, { headers: { 'accept-encoding': 'gzip' } })
  expect(headers['content-encoding'], url).toBe('gzip')
  return (await body.arrayBuffer()).byteLength
}
