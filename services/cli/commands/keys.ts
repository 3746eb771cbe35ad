import type { Command } from 'commander'
import { z } from 'zod'
import { REGION_PATTERN } from '../../../shared/protocol/subjects.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { hasKeys, writeKeys } from '../keys/write-keys.ts'
import { printLines, withExamples } from './common.ts'

const createFlags = z.object({
  region: z.array(z.string()),
  out: z.string(),
  ifMissing: z.boolean().default(false),
})

/** Adds `quotaplane keys create`. */
export function addKeysCommand(program: Command, io: Io): void {
  const keys = program.command('keys').description('make the keys that services know each other by')
  const command = keys
    .command('create')
    .description(
      'write nkeys for NATS, users for Redis, what each may do, and a first admin token, into an empty folder',
    )
    .requiredOption('--region <region...>', 'the regions of the plane')
    .requiredOption('--out <folder>', 'where to write; must be empty or not there')
    .option('--if-missing', 'leave a folder that has keys as it is')
    .action(async (options: unknown) => {
      const { region: regions, out, ifMissing } = createFlags.parse(options)
      for (const region of regions) {
        if (!REGION_PATTERN.test(region)) {
          throw new CliError(
            `--region ${region}: must be lower-case letters, digits and hyphens`,
            EXIT.usage,
          )
        }
      }
      if (ifMissing && (await hasKeys(out))) {
        say(io.err, `${out} has keys already; they stay as they are`)
        return
      }
      printLines(io, await writeKeys(out, [...new Set(regions)]))
      say(
        io.err,
        'Give services theirs by NATS_NKEY_SEED_FILE and REDIS_PASSWORD_FILE; docs/SECURITY.md says more.',
      )
    })
  withExamples(command, ['quotaplane keys create --region us-east-1 eu-west-1 --out keys'])
}
