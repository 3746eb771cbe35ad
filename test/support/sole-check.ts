import type { CheckStore, SoleCheck } from '../../shared/core/ports.ts'

/** `ask` of a store that has only `check`. */
export function askByPromise(store: Pick<CheckStore, 'check'>, sole: SoleCheck): void {
  const { group, target, cost, version } = sole
  store.check({ group, targets: [target], cost }, version).then(
    ({ decisions, atUs }) => {
      const [decision] = decisions
      if (decision === undefined) throw new Error('a store decides every target')
      sole.decided(decision, atUs)
    },
    (err: unknown) => sole.failed(err),
  )
}
