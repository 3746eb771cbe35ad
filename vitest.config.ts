import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** These measure how soon whole planes follow, so they come last and one at a time, with the machine to themselves. */
const MEASURED = ['scenarios', 'demo', 'dashboard'].map((name) => `test/e2e/${name}.test.ts`)

export default defineConfig({
  test: {
    // Without this one core is left idle: half of a machine of two.
    maxWorkers: availableParallelism(),
    reporters: ['default', './test/support/plain-summary.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts', 'test/tidy.test.ts'],
          // Properties and searches take seconds; on a busy machine that is no failure.
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'simulation',
          include: ['test/simulation/**/*.test.ts'],
          testTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/contract/**/*.test.ts', 'test/integration/**/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          // A deadline that only a hung test reaches: what takes a second takes many on a machine that is busy.
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: MEASURED,
          testTimeout: 180_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'e2e-measured',
          include: MEASURED,
          testTimeout: 180_000,
          hookTimeout: 120_000,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
