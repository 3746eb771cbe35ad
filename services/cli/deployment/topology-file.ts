import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { plainWords } from '../../../shared/protocol/plain-words.ts'
import { REGION_PATTERN } from '../../../shared/protocol/subjects.ts'
import { CliError, EXIT } from '../errors.ts'
import { LOCAL_REGIONS_MAX } from '../plane/topology.ts'

/** Processes of one kind in a region: more than this is a mistake on one machine. */
const COPIES_MAX = 8

const copies = z.number().int().min(1).max(COPIES_MAX)
const port = z.number().int().min(1).max(65_535)

const regionSchema = z.strictObject({
  name: z.string().regex(REGION_PATTERN, { error: 'must be a region such as us-east-1' }),
  enforcers: copies,
  /** One leads, the others stand by. */
  syncDaemons: copies,
  /** Where the first enforcer listens if it can; the others beside it. */
  enforcerPort: port.default(8080),
})

const topologySchema = z.strictObject({
  /** Configuration file of every region's Redis. */
  redis: z.string().min(1),
  /** Folder with `<region>.conf`, the configuration of each region's NATS. */
  nats: z.string().min(1),
  admins: copies,
  adminPort: port.default(7070),
  regions: z
    .array(regionSchema)
    .min(1)
    .max(LOCAL_REGIONS_MAX)
    .refine((regions) => new Set(regions.map(({ name }) => name)).size === regions.length, {
      error: 'must name each region once',
    }),
})

/** What is to be started, with paths as they are from here. */
export type Topology = z.infer<typeof topologySchema>

export type TopologyRegion = Topology['regions'][number]

/** Reads a topology; paths in it are from the folder that it is in. Throws `CliError`, naming the field. */
export function readTopology(path: string): Topology {
  const parsed = topologySchema.safeParse(contentOf(path), { error: plainWords })
  if (!parsed.success) {
    const problems = parsed.error.issues.map(
      ({ path: field, message }) => `  ${field.join('.') || 'the file'}: ${message}`,
    )
    throw new CliError(`${path} is no topology:\n${problems.join('\n')}`, EXIT.usage)
  }
  const folder = dirname(resolve(path))
  const { redis, nats, ...rest } = parsed.data
  return { ...rest, redis: resolve(folder, redis), nats: resolve(folder, nats) }
}

function contentOf(path: string): unknown {
  try {
    return parse(readFileSync(path, 'utf8'))
  } catch (err) {
    const [line] = String(err instanceof Error ? err.message : err).split('\n')
    throw new CliError(`${path}: ${line}`, EXIT.usage)
  }
}
