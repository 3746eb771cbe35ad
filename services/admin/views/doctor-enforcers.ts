/** What is wrong with the enforcers of a region, by what they say to their daemon and it to admin. Pure. */
import type { RegionId } from '../../../shared/core/policy.ts'
import type { RegionReport } from '../../../shared/core/rollout.ts'
import type { DoctorFinding } from '../../../shared/protocol/doctor.ts'
import { FINISH_UPGRADE, note, ok, problem, warning } from './findings.ts'

/** Enforcers that one finding names. */
const NAMED_MAX = 5

export interface EnforcersUnderCare {
  readonly region: RegionId
  /** What the region's daemon said last; null: nothing, or too long ago. */
  readonly report: RegionReport | null
  /** Version of admin. */
  readonly version: string
}

export function enforcerFindings({
  region,
  report,
  version,
}: EnforcersUnderCare): readonly DoctorFinding[] {
  const part = `enforcers of ${region}`
  if (report === null) {
    const message = 'are not known: no sync daemon tells of them'
    return [note(part, 'alive', message, 'see what is said of the region itself')]
  }
  const { enforcers, unlisted } = report
  const count = enforcers.length + unlisted
  if (count === 0) {
    const fix = 'start one, or see whether those that run reach the Redis of their region'
    return [warning(part, 'alive', 'none is alive, so nobody decides checks there', fix)]
  }
  const refusing = enforcers.flatMap(({ name, refused }) =>
    refused === null ? [] : [`${name} (${refused.reason})`],
  )
  const late = enforcers.filter((one) => one.refused === null && one.revision < report.revision)
  const others = enforcers.filter((one) => (one.version ?? version) !== version)
  return [
    ok(part, 'alive', `${count} ${count === 1 ? 'is' : 'are'} alive`),
    ...refusing.slice(0, NAMED_MAX).map((what) => {
      const fix = 'run the version of admin there, or take back what it cannot read'
      return problem(part, 'policies', `refuses policies: ${what}`, fix)
    }),
    ...(late.length > 0
      ? [
          warning(
            part,
            'policies',
            `${named(late)} ${late.length === 1 ? 'is' : 'are'} behind revision ${report.revision}`,
            'wait a second; if it stays, its log and /readyz?verbose say why',
          ),
        ]
      : []),
    ...(refusing.length + late.length === 0
      ? [ok(part, 'policies', `apply revision ${report.revision}`)]
      : []),
    ...(others.length > 0
      ? [
          warning(
            part,
            'version',
            `${named(others)} run ${[...new Set(others.map((one) => one.version))].join(', ')}, and admin ${version}`,
            FINISH_UPGRADE,
          ),
        ]
      : []),
  ]
}

function named(enforcers: readonly { readonly name: string }[]): string {
  const names = enforcers.slice(0, NAMED_MAX).map(({ name }) => name)
  const more = enforcers.length - names.length
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ')
}
