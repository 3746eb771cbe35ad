import type { Command } from 'commander'
import { z } from 'zod'
import { REGION_PATTERN } from '../../../shared/protocol/subjects.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { addKeys, addLaterKeys, hasKeys, writeKeys } from '../keys/write-keys.ts'
import { printLines, withExamples } from './common.ts'

const createFlags = z.object({
  region: z.array(z.string()),
  out: z.string(),
  ifMissing: z.boolean().default(false),
})
const addFlags = z.object({ region: z.array(z.string()), to: z.string() })

const NEXT =
  'Give services theirs by NATS_NKEY_SEED_FILE and REDIS_PASSWORD_FILE; docs/SECURITY.md says more.'

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
    .option(
      '--if-missing',
      'leave keys that are there as they are, and add what an earlier version did not write',
    )
    .action(async (options: unknown) => {
      const { region, out, ifMissing } = createFlags.parse(options)
      const regions = regionsOf(region)
      if (ifMissing && (await hasKeys(out))) {
        const later = await addLaterKeys(out)
        if (later.length > 0) printLines(io, later)
        say(io.err, `${out} has keys already; they stay as they are`)
        return
      }
      printLines(io, await writeKeys(out, regions))
      say(io.err, NEXT)
    })
  withExamples(create, ['quotaplane keys create --region us-east-1 eu-west-1 --out keys'])
  const add = keys
    .command('add')
    .description(
      'write the keys of further regions beside those of a plane, for the same admins and gateways',
    )
    .requiredOption('--region <region...>', 'regions that have no keys there')
    .requiredOption('--to <folder>', 'where `keys create` has written')
    .action(async (options: unknown) => {
      const { region, to } = addFlags.parse(options)
      printLines(io, await addKeys(to, regionsOf(region)))
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
