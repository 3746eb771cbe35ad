import type { Command } from 'commander'
import { regionListSchema } from '../../../shared/protocol/admin-replies.ts'
import type { Io } from '../io.ts'
import { adminOf } from '../settings.ts'
import { table } from '../table.ts'
import { adminFlags, printJson, printLines, withAdminFlags, withExamples } from './common.ts'

/** Adds `quotaplane region list`. */
export function addRegionCommand(program: Command, io: Io): void {
  const region = program.command('region').description('show the regions of the plane')
  const command = region
    .command('list')
    .description('list the regions, and how each is doing')
    .action(async (options: unknown) => {
      const flags = adminFlags.parse(options)
      const pages = await adminOf(flags, io).readPages('/v1/regions', regionListSchema)
      const regions = pages.flatMap((page) => page.items)
      if (flags.json) {
        printJson(io, { regions })
        return
      }
      const rows = regions.map(({ id, health }) => [
        id,
        health.isReporting ? (health.isRecovering ? 'recovering' : 'reporting') : 'silent',
        health.ageMs === null ? 'never' : `${(health.ageMs / 1_000).toFixed(1)} s ago`,
        String(health.appliedRevision ?? '-'),
      ])
      printLines(io, table(['region', 'state', 'last heard', '>applied revision'], rows))
    })
  withExamples(withAdminFlags(command), ['quotaplane region list', 'quotaplane region list --json'])
}
