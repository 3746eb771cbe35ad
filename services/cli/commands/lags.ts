import type { Command } from 'commander'
import { type LagsReply, lagsReplySchema } from '../../../shared/protocol/reading-replies.ts'
import { parseReply } from '../admin-client.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput, withWatch } from '../output.ts'
import { adminOf } from '../settings.ts'
import { adminFlags, withAdminFlags, withExamples } from './common.ts'

const flagsSchema = adminFlags.extend(outputFlags.shape)

/** Adds `quotaplane region lags`. */
export function addRegionLags(region: Command, io: Io): void {
  const command = region
    .command('lags')
    .description('show how old what each region knows of each other is, and how each is doing')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      const client = adminOf(flags, io)
      const read = async (): Promise<View> => {
        const { body } = await client.call({ method: 'GET', path: '/v1/lags' })
        return lagsView(parseReply(lagsReplySchema, body))
      }
      await show(io, flags, read, { live: { client, events: ['regions'] } })
    })
  withExamples(withWatch(withOutput(withAdminFlags(command))), [
    'quotaplane region lags',
    'quotaplane region lags --watch',
  ])
}

function lagsView(lags: LagsReply): View {
  const down = Object.entries(lags.admin).filter(([, state]) => state === 'down')
  return {
    data: lags,
    headers: ['region', 'hears', '>lag', '>as of'],
    rows: lags.pairs
      .map(({ from, to, lagMs, ageMs }) => [to, from, seconds(lagMs), `${seconds(ageMs)} ago`])
      .sort((one, other) => ((one[0] ?? '') < (other[0] ?? '') ? -1 : 1)),
    names: lags.pairs.map(({ from, to }) => `${to}<${from}`),
    notes: [
      ...lags.regions.map(
        ({ region, ageMs, store, bus, hungryKeys }) =>
          `${region}: last heard ${ageMs === null ? 'never' : `${seconds(ageMs)} ago`}, store ${store}, bus ${bus}, ${hungryKeys} keys short`,
      ),
      ...down.map(([part]) => `This admin's ${part} is down.`),
    ],
  }
}

function seconds(ms: number | null): string {
  return ms === null ? 'never' : `${(ms / 1_000).toFixed(1)} s`
}
