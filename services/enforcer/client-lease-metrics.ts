import { LEASE_REFUSALS, type LeaseRefusal } from '../../shared/protocol/lease-messages.ts'
import type { Registry } from '../../shared/runtime/metrics.ts'
import { type Cell, Tally } from '../../shared/runtime/tally.ts'

/** What is counted of blocks that clients ask for. */
export interface ClientLeaseCells {
  readonly outcomes: Readonly<Record<'granted' | LeaseRefusal, Cell>>
  readonly tokens: Readonly<Record<'granted' | 'returned', Cell>>
}

export function createClientLeaseCells(registry: Registry): ClientLeaseCells {
  const outcomes = new Tally(registry, {
    name: 'quotaplane_client_leases_total',
    help: 'Blocks of tokens that clients asked for, by what became of it.',
    labels: ['outcome'],
  })
  const tokens = new Tally(registry, {
    name: 'quotaplane_client_lease_tokens_total',
    help: 'Tokens that clients took in blocks and gave back.',
    labels: ['kind'],
  })
  const names = ['granted', ...LEASE_REFUSALS] as const
  const cells = names.map((outcome) => [outcome, outcomes.cell({ outcome })] as const)
  return {
    outcomes: Object.fromEntries(cells) as ClientLeaseCells['outcomes'],
    tokens: {
      granted: tokens.cell({ kind: 'granted' }),
      returned: tokens.cell({ kind: 'returned' }),
    },
  }
}
