import type { RegionId } from '../../../shared/core/policy.ts'
import {
  COUNT_SUBJECTS,
  countSubject,
  FACTS_SUBJECTS,
  factsSubject,
  INCARNATION_SUBJECTS,
  inboxPrefix,
  incarnationSubject,
  POLICY_CHANGES_SUBJECT,
  POLICY_REVISION_SUBJECT,
  ROLLOUT_SUBJECTS,
  rolloutSubject,
  STATE_SUBJECTS,
  STOCK_SUBJECTS,
  SYNC_SUBJECTS,
  stateSubject,
  stockSubject,
  syncSubject,
} from '../../../shared/protocol/subjects.ts'

/**
 * The `authorization` of the NATS of one region: its own daemons and the admins, known by nkeys (public keys), each
 * with the subjects that it needs. A daemon can publish as its own region alone, and hears the answers to its own region
 * alone, so a key that leaks in one region is no way to speak for another. Admins ask nothing.
 */
export function natsAuthorization(options: {
  readonly region: RegionId
  readonly syncKey: string
  readonly adminKey: string
}): string {
  const { region, syncKey, adminKey } = options
  return `# Who may say what on the NATS of ${region}. Public keys; their seeds are for the services alone.
authorization {
  timeout: 2
  users: [
    {
      nkey: ${syncKey}
      permissions: {
        publish: ${list([
          stateSubject(region),
          countSubject(region),
          rolloutSubject(region),
          factsSubject(region),
          SYNC_SUBJECTS,
          POLICY_CHANGES_SUBJECT,
          incarnationSubject(region),
          stockSubject(region),
        ])}
        subscribe: ${list([
          STATE_SUBJECTS,
          COUNT_SUBJECTS,
          syncSubject(region),
          POLICY_REVISION_SUBJECT,
          `${inboxPrefix(region)}.>`,
        ])}
      }
    }
    {
      nkey: ${adminKey}
      permissions: {
        publish: ${list([POLICY_REVISION_SUBJECT, SYNC_SUBJECTS])}
        subscribe: ${list([
          STATE_SUBJECTS,
          ROLLOUT_SUBJECTS,
          FACTS_SUBJECTS,
          POLICY_CHANGES_SUBJECT,
          INCARNATION_SUBJECTS,
          STOCK_SUBJECTS,
        ])}
        allow_responses: true
      }
    }
  ]
}
`
}

/** What every region's server includes in its `gateway`: the password that servers of the plane join each other by. */
export function gatewayAuthorization(password: string): string {
  return `# By which the NATS servers of the regions know one another. Secret.
authorization { user: gateway, password: "${password}", timeout: 2 }
`
}

function list(subjects: readonly string[]): string {
  return `[${subjects.map((subject) => `"${subject}"`).join(', ')}]`
}
