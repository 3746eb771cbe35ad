import type { Reporter, TestModule } from 'vitest/node'

/** Prints the one plain closing line by which CI counts tests. */
export default class PlainSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state]++
    }
    const failed = count.failed + modules.filter(failedBesideTests).length
    console.log(`${count.passed} passed, ${failed} failed, ${count.skipped} skipped`)
  }
}

/** A file can fail although none of its tests did: it does not load, or a suite in it is empty. */
function failedBesideTests(module: TestModule): boolean {
  const tests = [...module.children.allTests()]
  return module.state() === 'failed' && tests.every((test) => test.result().state !== 'failed')
}
