import type { Reporter, TestModule } from 'vitest/node'

/** Prints the one plain closing line by which CI counts tests. */
export default class PlainSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state]++
    }
    const failed = count.failed + modules.filter(failedWithoutTests).length
    console.log(`${count.passed} passed, ${failed} failed, ${count.skipped} skipped`)
  }
}

/** A file that fails to load runs no test, and must still count as a failure. */
function failedWithoutTests(module: TestModule): boolean {
  return module.state() === 'failed' && [...module.children.allTests()].length === 0
}
