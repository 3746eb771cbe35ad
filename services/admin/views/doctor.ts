/** What is wrong with an installation, worked out of what admin knows. Pure: the same facts give the same findings. */
import type { RegionId } from '../../../shared/core/policy.ts'
import type { RegionReport } from '../../../shared/core/rollout.ts'
import type { DoctorFinding } from '../../../shared/protocol/doctor.ts'
import type { SyncFacts } from '../../../shared/protocol/facts.ts'
import { type HeardFacts, redisAheadMs } from '../facts-book.ts'
import { type RegionHealth, SILENT_AFTER_MS } from '../live-view.ts'
import { enforcerFindings } from './doctor-enforcers.ts'
import { FINISH_UPGRADE, note, ok, problem, warning } from './findings.ts'

/** Regions may differ by this much (docs/consistency.md); fixed windows rest on it. */
const SKEW_MS_MAX = 50

/** What the way of facts to admin may hide or add on top. */
const SKEW_MARGIN_MS = 100

/** Past this much of its memory a Redis is about to evict or to refuse. */
const MEMORY_PART_MAX = 0.9

export interface RegionUnderCare {
  readonly region: RegionId
  readonly health: RegionHealth
  readonly facts: readonly HeardFacts[]
  /** What it says of its enforcers; null: nothing, or too long ago. */
  readonly report: RegionReport | null
}

export interface Patient {
  readonly version: string
  readonly revision: number
  readonly isDatabaseUp: boolean
  readonly isBusUp: boolean
  /** Null when it could not be asked. */
  readonly postgresVersion: number | null
  readonly regions: readonly RegionUnderCare[]
  readonly tokens: readonly { readonly name: string; readonly expiresInDays: number }[]
}

export function diagnose(patient: Patient): readonly DoctorFinding[] {
  return [
    ...stores(patient),
    ...patient.regions.flatMap((region) => [
      ...liveness(region, patient),
      ...daemons(region, patient),
      ...redisOf(region),
      ...enforcerFindings({ ...region, version: patient.version }),
      ...links(region, patient),
      ...audits(region),
    ]),
    ...clocks(patient),
    ...tokens(patient),
  ]
}

function stores({ isDatabaseUp, isBusUp, postgresVersion }: Patient): readonly DoctorFinding[] {
  const postgres = 'postgres'
  const isOld = postgresVersion !== null && postgresVersion < 13
  return [
    isDatabaseUp
      ? ok(postgres, 'reachable', 'answers, and its migrations are those of admin')
      : problem(
          postgres,
          'reachable',
          'does not answer admin',
          'checks go on; policies cannot be changed until DATABASE_URL can be reached',
        ),
    ...(isOld
      ? [problem(postgres, 'version', `is version ${postgresVersion}`, 'use 13 or later')]
      : []),
    isBusUp
      ? ok('admin', 'nats', 'is connected to NATS')
      : problem(
          'admin',
          'nats',
          'is not connected to NATS',
          'regions hear of no change: check NATS_URL of admin and the server there',
        ),
  ]
}

function liveness(
  { region, health }: RegionUnderCare,
  { revision }: Patient,
): readonly DoctorFinding[] {
  const { isReporting, ageMs, isRecovering, appliedRevision } = health
  if (!isReporting) {
    const since = ageMs === null ? 'was never heard' : `was last heard ${seconds(ageMs)} ago`
    return [
      problem(
        region,
        'reporting',
        since,
        'see whether its sync daemon runs (/readyz?verbose there) and whether its NATS is joined to the others',
      ),
    ]
  }
  const behind = appliedRevision === null || appliedRevision < revision
  return [
    ok(region, 'reporting', 'reports each second'),
    ...(isRecovering
      ? [
          warning(
            region,
            'recovering',
            'lost its memory and uses nothing until its peers know',
            'wait some seconds; if it stays, see whether every peer is heard',
          ),
        ]
      : []),
    behind
      ? warning(
          region,
          'revision',
          `applies revision ${appliedRevision ?? 'none'} of ${revision}`,
          `see quotaplane rollout status; if it stays, the log of its sync daemon says why`,
        )
      : ok(region, 'revision', `applies revision ${revision}`),
  ]
}

function daemons(
  { region, facts }: RegionUnderCare,
  { version }: Patient,
): readonly DoctorFinding[] {
  if (facts.length === 0) {
    return [
      warning(
        region,
        'daemons',
        'no sync daemon tells of itself',
        'run the version of admin there; with keys, let the region publish quotaplane.v1.facts',
      ),
    ]
  }
  const leading = facts.filter((one) => one.facts.isLeading).length
  const others = [...new Set(facts.map((one) => one.facts.version))].filter(
    (one) => one !== version,
  )
  const natsVersions = facts.flatMap((one) => one.facts.natsVersion ?? [])
  return [
    leading === 0
      ? problem(
          region,
          'leader',
          'no sync daemon leads',
          'the log of the daemons says what they wait for',
        )
      : ok(region, 'leader', 'has a sync daemon that leads'),
    facts.length < 2
      ? warning(
          region,
          'standby',
          'has no second sync daemon',
          'run two: when one ends, the other takes over within seconds',
        )
      : ok(region, 'standby', `has ${facts.length} sync daemons`),
    ...(others.length > 0
      ? [
          warning(
            region,
            'version',
            `runs ${others.join(', ')}, and admin ${version}`,
            FINISH_UPGRADE,
          ),
        ]
      : [
          ok(
            region,
            'version',
            `runs ${version}; NATS ${[...new Set(natsVersions)].join(', ') || 'unknown'}`,
          ),
        ]),
  ]
}

function redisOf({ region, facts }: RegionUnderCare): readonly DoctorFinding[] {
  const [first] = facts
  if (first === undefined) return []
  const part = `redis of ${region}`
  const redis = (facts.find((one) => one.facts.isLeading) ?? first).facts.redis
  if (redis === null)
    return [
      problem(
        part,
        'reachable',
        'does not answer its sync daemon',
        'checks there are answered by onStoreFailure: see whether Redis runs',
      ),
    ]
  return [
    ok(part, 'reachable', `answers, version ${redis.version}`),
    evictionOf(part, redis),
    ...memoryOf(part, redis),
    ...(redis.role === 'master'
      ? []
      : [problem(part, 'role', `is a ${redis.role}`, 'point REDIS_URL at the primary')]),
    ...(redis.isPersistent === false
      ? [
          note(
            part,
            'persistence',
            'keeps nothing on disk',
            'after a restart the region uses nothing for some seconds; appendonly yes spares it that',
          ),
        ]
      : []),
  ]
}

type RedisFacts = NonNullable<SyncFacts['redis']>

function evictionOf(part: string, { maxmemoryPolicy, maxmemoryBytes }: RedisFacts): DoctorFinding {
  const fix =
    'set maxmemory-policy noeviction: a counter that is evicted is a limit that begins anew'
  if (maxmemoryPolicy === null)
    return note(part, 'eviction', 'does not say its maxmemory-policy', 'see that it is noeviction')
  if (maxmemoryPolicy === 'noeviction') return ok(part, 'eviction', 'evicts nothing')
  const said = `has the maxmemory-policy ${maxmemoryPolicy}`
  return maxmemoryBytes === 0
    ? warning(part, 'eviction', `${said}, and no maxmemory yet`, fix)
    : problem(part, 'eviction', said, fix)
}

function memoryOf(part: string, redis: RedisFacts): readonly DoctorFinding[] {
  const { evictedKeys, usedBytes, maxmemoryBytes } = redis
  const used =
    maxmemoryBytes === null || maxmemoryBytes === 0 ? 0 : (usedBytes ?? 0) / maxmemoryBytes
  return [
    ...((evictedKeys ?? 0) > 0
      ? [
          problem(
            part,
            'evicted',
            `has evicted ${evictedKeys} keys`,
            'give it more memory; limits may have begun anew',
          ),
        ]
      : []),
    ...(used > MEMORY_PART_MAX
      ? [
          warning(
            part,
            'memory',
            `uses ${Math.round(100 * used)} % of its maxmemory`,
            'raise maxmemory before it refuses writes',
          ),
        ]
      : []),
  ]
}

/** Every region is to hear every other; which way is silent tells where to look. */
function links(
  { region, facts, health }: RegionUnderCare,
  { regions }: Patient,
): readonly DoctorFinding[] {
  const leader = facts.find((one) => one.facts.isLeading)
  if (leader === undefined || !health.isReporting) return []
  const peers = regions.filter((other) => other.region !== region && other.health.isReporting)
  const silent = peers.flatMap((other) => {
    const ageMs = leader.facts.peers.find((peer) => peer.region === other.region)?.ageMs ?? null
    return ageMs !== null && ageMs <= SILENT_AFTER_MS ? [] : [{ peer: other.region, ageMs }]
  })
  if (silent.length === 0)
    return peers.length === 0
      ? []
      : [ok(region, 'links', `hears ${peers.map((one) => one.region).join(', ')}`)]
  return silent.map(({ peer, ageMs }) =>
    problem(
      `${peer} > ${region}`,
      'links',
      ageMs === null ? 'nothing is heard' : `nothing was heard for ${seconds(ageMs)}`,
      `see the gateway of the NATS of ${region} to ${peer}; until then each has its own base of every limit`,
    ),
  )
}

function audits({ region, facts }: RegionUnderCare): readonly DoctorFinding[] {
  const leader = facts.find((one) => one.facts.isLeading)?.facts
  if (leader === undefined) return []
  const { overAdmitted, alarms } = leader
  return [
    overAdmitted > 0
      ? problem(
          region,
          'over-admission',
          `sees ${Math.ceil(overAdmitted)} tokens admitted beyond a limit`,
          'a counter was lost or a clock was set: see quotaplane_over_admission_tokens and the findings here',
        )
      : ok(region, 'over-admission', 'sees no limit exceeded'),
    ...(alarms > 0
      ? [
          problem(
            region,
            'alarms',
            `has ${alarms} alarms of its self-audit`,
            'its log names each; keep it and report it',
          ),
        ]
      : []),
  ]
}

/** Windows are labelled by the clock of each Redis. */
function clocks({ regions }: Patient): readonly DoctorFinding[] {
  const known = regions.flatMap(({ region, facts }) => {
    const aheadMs = redisAheadMs(facts)
    return aheadMs === null ? [] : [{ region, aheadMs }]
  })
  const sorted = [...known].sort((one, other) => one.aheadMs - other.aheadMs)
  const [slowest] = sorted
  const fastest = sorted.at(-1)
  if (slowest === undefined || fastest === undefined) return []
  const apartMs = fastest.aheadMs - slowest.aheadMs
  const aside = Math.max(Math.abs(fastest.aheadMs), Math.abs(slowest.aheadMs))
  const fix = `run NTP or PTP on both; fixed windows hold while clocks differ by at most ${SKEW_MS_MAX} ms`
  return [
    apartMs > SKEW_MS_MAX + SKEW_MARGIN_MS
      ? problem(
          `${slowest.region}, ${fastest.region}`,
          'clocks',
          `the clocks of their Redis are ${seconds(apartMs)} apart`,
          fix,
        )
      : ok('clocks', 'clocks', 'the clocks of all Redis agree'),
    ...(aside > 1_000
      ? [
          warning(
            'admin',
            'clocks',
            `differs by ${seconds(aside)} from the clock of a Redis`,
            'run NTP on the machine of admin',
          ),
        ]
      : []),
  ]
}

function tokens({ tokens: expiring }: Patient): readonly DoctorFinding[] {
  return expiring.map(({ name, expiresInDays }) =>
    expiresInDays < 0
      ? warning(
          'tokens',
          'expiry',
          `the token ${name} has expired`,
          'revoke it, or create its successor',
        )
      : warning(
          'tokens',
          'expiry',
          `the token ${name} expires in ${Math.floor(expiresInDays)} days`,
          'create its successor with quotaplane token create',
        ),
  )
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 100) / 10} s`
}
