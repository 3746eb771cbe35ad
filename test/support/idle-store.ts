import type { CheckStore } from '../../shared/core/ports.ts'

/** Operations of a CheckStore for tests that never ask for them. */
export const NEVER_ASKED: Pick<CheckStore, 'refund' | 'release'> = {
  refund: () => Promise.reject(new Error('no refund was expected')),
  release: () => Promise.reject(new Error('no release was expected')),
}
