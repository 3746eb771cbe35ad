import type { Command } from 'commander'
import { z } from 'zod'
import { REGION_PATTERN } from '../../../shared/protocol/subjects.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import type { GatewayHosts } from '../keys/gateway-files.ts'
import { addKeys, addLaterKeys, hasKeys, writeKeys } from '../keys/write-keys.ts'
import { printLines, withExamples } from './common.ts'

const createFlags = z.object({
  region: z.array(z.string()),
  gatewayHost: z.array(z.string()).default([]),
  out: z.string(),
  ifMissing: z.boolean().default(false),
})
const addFlags = z.object({
  region: z.array(z.string()),
  gatewayHost: z.array(z.string()).default([]),
  to: z.string(),
})

const NEXT =
  'Give services theirs by NATS_NKEY_SEED_FILE and REDIS_PASSWORD_FILE; docs/SECURITY.md says more.'

const GATEWAY_HOST =
  "a name or address by which the other regions reach a region's NATS, beside REGION-nats"

/** A DNS name or an IP address, as a certificate has them. */
const HOST = /^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$/

/** Adds `quotaplane keys create` and `keys add`. */
export function addKeysCommand(program: Command, io: Io): void {
  const keys = program.command('keys').description('make the keys that services know each other by')
  const create = keys
    .command('create')
    .description(
      'write nkeys for NATS, users for Redis, what each may do, and a first admin token, into an empty folder',
    )
    .requiredOption('--region <region...>', 'the regions of the plane')
    .requiredOption('--out <folder>', 'where to write; must be empty or not there')
    .option('--gateway-host <region=host...>', GATEWAY_HOST)
    .option(
      '--if-missing',
      'leave keys that are there as they are, and add what an earlier version did not write',
    )
    .action(async (options: unknown) => {
      const { region, gatewayHost, out, ifMissing } = createFlags.parse(options)
      const regions = regionsOf(region)
      const hosts = hostsOf(gatewayHost, regions)
      if (ifMissing && (await hasKeys(out))) {
        const later = await addLaterKeys(out, hosts)
        if (later.length > 0) printLines(io, later)
        say(io.err, `${out} has keys already; they stay as they are`)
        return
      }
      printLines(io, await writeKeys(out, regions, hosts))
      say(io.err, NEXT)
    })
  withExamples(create, [
    'quotaplane keys create --region us-east-1 eu-west-1 --out keys',
    'quotaplane keys create --region us-east-1 --gateway-host us-east-1=nats.us.example.org --out keys',
  ])
  const add = keys
    .command('add')
    .description(
      'write the keys of further regions beside those of a plane, for the same admins and gateways',
    )
    .requiredOption('--region <region...>', 'regions that have no keys there')
    .requiredOption('--to <folder>', 'where `keys create` has written')
    .option('--gateway-host <region=host...>', GATEWAY_HOST)
    .action(async (options: unknown) => {
      const { region, gatewayHost, to } = addFlags.parse(options)
      const regions = regionsOf(region)
      printLines(io, await addKeys(to, regions, hostsOf(gatewayHost, regions)))
      say(io.err, NEXT)
    })
  withExamples(add, ['quotaplane keys add --region ap-south-1 --to keys'])
}

function regionsOf(given: readonly string[]): readonly string[] {
  for (const region of given) {
    if (REGION_PATTERN.test(region)) continue
    const message = `--region ${region}: must be lower-case letters, digits and hyphens`
    throw new CliError(message, EXIT.usage)
  }
  return [...new Set(given)]
}

function hostsOf(given: readonly string[], regions: readonly string[]): GatewayHosts {
  const hosts = new Map<string, string[]>()
  for (const one of given) {
    const [, region = '', host = ''] = /^([^=]*)=(.*)$/.exec(one) ?? []
    if (!regions.includes(region) || !HOST.test(host)) {
      const message = `--gateway-host ${one}: must be a region of --region, "=" and a name or address`
      throw new CliError(message, EXIT.usage)
    }
    hosts.set(region, [...(hosts.get(region) ?? []), host])
  }
  return hosts
}
