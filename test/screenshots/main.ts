/**
 * Takes the pictures of the dashboard that the documents show: `npm run screenshots`.
 *
 * They are of a plane that is started for them, under load, so no two runs give the same figures. Another folder than
 * docs/images can be given, to look at them first.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { startPlane } from '../../services/cli/plane/plane.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { startBrowser } from '../support/browser.ts'
import { REGIONS, shop } from './shop.ts'

const TOKEN = 'Token of the admin API'
const SPLIT = '#/policies/shop/per-tenant?key=tenant%3Dacme'

/** So long a split is watched before its picture is taken. */
const WATCHED_MS = 12_000

interface Shot {
  readonly name: string
  readonly options: BrowserContextOptions
  /** Brings the page, on which somebody is signed in, to what is to be seen. */
  readonly show: (page: Page, open: (hash: string) => Promise<unknown>) => Promise<unknown>
}

const SHOTS: readonly Shot[] = [
  {
    name: 'overview',
    options: { viewport: { width: 1280, height: 880 }, colorScheme: 'light' },
    show: (page) => page.getByRole('row', { name: 'tenant=acme' }).waitFor(),
  },
  {
    name: 'overview-phone',
    options: { viewport: { width: 360, height: 740 }, colorScheme: 'light' },
    show: (page) => page.getByRole('row', { name: 'tenant=acme' }).waitFor(),
  },
  {
    name: 'split',
    options: { viewport: { width: 1280, height: 1000 }, colorScheme: 'dark' },
    async show(page, open) {
      await open(SPLIT)
      await page.getByText('Denied in').waitFor()
      await page.waitForTimeout(WATCHED_MS)
    },
  },
  {
    name: 'plan',
    options: { viewport: { width: 1000, height: 640 }, colorScheme: 'light' },
    async show(page, open) {
      await open(SPLIT)
      await page.getByRole('button', { name: 'Edit limit' }).click()
      await page.getByLabel('Capacity').fill('900')
      await page.getByLabel('Reason').fill('acme bought more')
      await page.getByRole('button', { name: 'Show the plan' }).click()
      await page.getByRole('heading', { name: 'What it would change' }).waitFor()
    },
  },
]

const folder = process.argv[2] ?? join(PACKAGE_ROOT, 'docs/images')
const plane = await startPlane({
  regions: REGIONS,
  linkDelayMs: 20,
  databaseUrl: null,
  ports: 'free',
  env: process.env,
  say: (line) => process.stderr.write(`${line}\n`),
  signal: new AbortController().signal,
})
try {
  const stop = await shop(plane)
  await mkdir(folder, { recursive: true })
  await takeAll(plane, folder)
  await stop()
} finally {
  await plane.stop()
}

async function takeAll({ admin }: Plane, into: string): Promise<void> {
  const browser = await startBrowser()
  try {
    for (const { name, options, show } of SHOTS) {
      const context = await browser.newContext(options)
      const page = await context.newPage()
      const open = (hash: string) => page.goto(`${admin.url}/${hash}`)
      await open('')
      await page.getByLabel(TOKEN).fill(admin.token)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByText('applied in every region').waitFor()
      await show(page, open)
      const path = join(into, `dashboard-${name}.png`)
      await page.screenshot({ path })
      process.stdout.write(`${path}\n`)
      await context.close()
    }
  } finally {
    await browser.close()
  }
}
