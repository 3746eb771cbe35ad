import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Command, Option } from 'commander'
import { stringify } from 'yaml'
import { z } from 'zod'
import { policyDocumentSchema } from '../../../shared/protocol/policy.ts'
import { documentOf } from '../../../shared/protocol/policy-document.ts'
import { EXIT } from '../errors.ts'
import { withExitCodes } from '../help.ts'
import { exportEnvoy } from '../import/envoy-export.ts'
import { type Io, say } from '../io.ts'
import { documentOfDomain, readAllPolicies, readDescribedDomains } from '../policy-document.ts'
import { adminOf } from '../settings.ts'
import { adminFlags, withAdminFlags, withExamples } from './common.ts'

const exportFlags = adminFlags.omit({ json: true }).extend({
  format: z.enum(['quotaplane', 'envoy']),
  domain: z.string().optional(),
  output: z.string().optional(),
})

interface ExportedFile {
  readonly domain: string
  readonly text: string
}

/** Adds `quotaplane export`. */
export function addExportCommand(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  const command = program
    .command('export')
    .description('print the policies and domains of the plane as YAML that apply takes')
    .addOption(
      new Option('--format <format>', 'envoy: what its rate limit service can say, the rest listed')
        .choices(['quotaplane', 'envoy'])
        .default('quotaplane'),
    )
    .option('--domain <domain>', 'only the policies of one domain')
    .option('-o, --output <folder>', 'write a file for each domain there, not to standard output')
    .action(async (options: unknown) => {
      const flags = exportFlags.parse(options)
      const client = adminOf(flags, io)
      const policies = await readAllPolicies(client, flags)
      const documents = policies.map(documentOf)
      for (const { domain, name, overrideCount } of policies) {
        if (overrideCount === 0) continue
        say(
          io.err,
          `${domain}/${name}: ${overrideCount} overrides are no part of it; see override list`,
        )
      }
      if (flags.format === 'quotaplane') {
        const domains = await readDescribedDomains(client, flags)
        const described = domains.map((one) => ({ ...one, document: documentOfDomain(one) }))
        const defined = policies.map((one, place) => ({ ...one, document: documents[place] ?? {} }))
        await write(filesOf([...described, ...defined]), flags.output, io)
        return
      }
      const parsed = documents.map((document) => policyDocumentSchema.parse(document))
      const { files, leftOut } = exportEnvoy(parsed)
      for (const { policy, reason } of leftOut) say(io.err, `left out: ${policy} ${reason}`)
      await write(files, flags.output, io)
      if (leftOut.length > 0) setExitCode(EXIT.failure)
    })
  withExamples(withAdminFlags(command), [
    'quotaplane export > policies.yaml && quotaplane policy apply -f policies.yaml',
    'quotaplane export -o policies/ --domain api',
    'quotaplane export --format envoy > ratelimit.yaml',
  ])
  command.addHelpText(
    'after',
    '\nPolicies come in the order in which they were created, and applied in it elsewhere they match alike.',
  )
  withExitCodes(command, '0 all is exported, 1 something is left out or admin does not answer')
}

function filesOf(
  all: readonly { readonly domain: string; readonly document: object }[],
): readonly ExportedFile[] {
  return [...new Set(all.map(({ domain }) => domain))].map((domain) => ({
    domain,
    text: all
      .filter((one) => one.domain === domain)
      .map(({ document }) => stringify(document, { lineWidth: 0 }))
      .join('---\n'),
  }))
}

async function write(
  files: readonly ExportedFile[],
  folder: string | undefined,
  io: Io,
): Promise<void> {
  if (folder === undefined) {
    io.out.write(files.map(({ text }) => text).join('---\n'))
    return
  }
  await mkdir(folder, { recursive: true })
  for (const { domain, text } of files) {
    const path = join(folder, `${domain}.yaml`)
    await writeFile(path, text)
    say(io.err, path)
  }
}
