import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { z } from 'zod'
import { AdminClient } from '../admin-client.ts'
import { policyPath } from '../arguments.ts'
import { startDeployment } from '../deployment/deployment.ts'
import { readTopology } from '../deployment/topology-file.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { whenEnforced } from '../plane/enforced.ts'
import { startPlane } from '../plane/plane.ts'
import { examplePolicy } from '../plane/seed.ts'
import type { Together } from '../plane/together.ts'
import {
  DEFAULT_REGIONS,
  describePlane,
  LOCAL_REGIONS_MAX,
  type PlaneParts,
} from '../plane/topology.ts'
import { applyPolicy } from '../policy-client.ts'
import { writeStateFile } from '../state-file.ts'
import { printJson, printLines, regionList, wholeNumber, withExamples } from './common.ts'

/** A check that the example policy decides. */
const EXAMPLE_CHECK = {
  domain: 'api',
  descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }],
}

const flagsSchema = z.object({
  regions: z.array(z.string()).readonly(),
  linkDelayMs: z.number(),
  topology: z.string().optional(),
  data: z.string().optional(),
  json: z.boolean().default(false),
})

type Flags = z.infer<typeof flagsSchema>
type RunningPlane = PlaneParts & Together

/** Adds `quotaplane up`: a whole plane on this machine, until Ctrl-C. */
export function addUpCommand(program: Command, io: Io): void {
  const command = program
    .command('up')
    .description('bring up a whole plane on this machine, until Ctrl-C')
    .option(
      '--regions <names>',
      'regions, separated by commas',
      regionList(LOCAL_REGIONS_MAX),
      DEFAULT_REGIONS,
    )
    .option('--link-delay-ms <ms>', 'one-way delay put between regions', wholeNumber(0, 10_000), 0)
    .addOption(
      new Option(
        '--topology <file>',
        'what to start, from the configuration files that are deployed, such as deploy/topology.yaml',
      ).conflicts(['regions', 'linkDelayMs']),
    )
    .option('--data <folder>', 'with --topology: where data and keys go, and are found again')
    .option('--json', 'print one line with everything that was started')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      await up(flags, io)
    })
  withExamples(command, [
    'quotaplane up',
    'quotaplane up --regions us-east-1,eu-west-1,ap-south-1 --link-delay-ms 50',
    'quotaplane up --topology deploy/topology.yaml --data plane',
    'DATABASE_URL=postgresql://localhost/quota quotaplane up --json',
  ])
}

async function up(flags: Flags, io: Io): Promise<void> {
  const progress = (line: string): void => say(io.err, line)
  const plane = await start(flags, io, progress)
  try {
    await seed(plane, io.signal)
    const description = describePlane(plane, process.pid)
    plane.removeOnStop(writeStateFile(io.env, description))
    watchChildren(plane, progress)
    if (flags.json) printJson(io, description)
    else printLines(io, welcome(plane))
    await aborted(io.signal)
    progress('Stopping')
  } finally {
    await plane.stop()
  }
}

function start(flags: Flags, io: Io, progress: (line: string) => void): Promise<RunningPlane> {
  const common = {
    databaseUrl: io.env['DATABASE_URL'] || null,
    ports: 'usual',
    env: io.env,
    say: progress,
    signal: io.signal,
  } as const
  const { regions, linkDelayMs, topology, data } = flags
  if (topology === undefined) {
    if (data === undefined) return startPlane({ ...common, regions, linkDelayMs })
    throw new CliError('--data needs --topology: only such a plane keeps its data', EXIT.usage)
  }
  const folder = data === undefined ? null : resolve(data)
  return startDeployment({ ...common, topology: readTopology(topology), folder })
}

/** An operator's own database may hold a changed example from before; it is left as it is. */
async function seed(plane: RunningPlane, signal: AbortSignal): Promise<void> {
  const client = new AdminClient({ ...plane.admin, signal })
  const policy = examplePolicy(plane.regions.map(({ region }) => region))
  const path = policyPath(policy)
  const found = await client.call({ method: 'GET', path, accepts: [404] })
  if (found.status !== 404) return
  await applyPolicy(client, policy)
  const urls = plane.regions.flatMap(({ enforcers }) => enforcers.map(({ url }) => url))
  await whenEnforced(urls, { ...EXAMPLE_CHECK, decisions: 1 }, signal)
}

/** A part that ends by itself is told and not replaced: whoever breaks it on purpose wants to see what follows. */
function watchChildren(plane: RunningPlane, tell: (line: string) => void): void {
  plane.onUnexpectedExit((child, how) => tell(`The ${child.name} ended (${how}); the rest goes on`))
}

function welcome(plane: RunningPlane): string[] {
  const [first] = plane.regions
  const url = first?.enforcers[0]?.url ?? ''
  const body = JSON.stringify(EXAMPLE_CHECK)
  return [
    '',
    `The plane is up. Admin: ${plane.admin.url}  token: ${plane.admin.token}`,
    ...plane.regions.map(
      ({ region, enforcers, redis, nats }) =>
        `  ${region}: enforcer ${enforcers[0]?.url} (gRPC ${enforcers[0]?.grpcPort})  Redis ${redis.port}  NATS ${nats.port}`,
    ),
    '',
    'Example policy api/per-tenant: 10,000 checks a second for each tenant. Try a check:',
    `  curl -s ${url}/v1/check -H 'content-type: application/json' -d '${body}'`,
    '',
    'Ctrl-C stops everything.',
  ]
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
