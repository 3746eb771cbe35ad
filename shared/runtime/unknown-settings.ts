/** Finds variables that look like settings and are none, so that a misspelt one is not ignored in silence. */
import type { Logger } from './logger.ts'
import { OTHER_NAMES, SETTING_NAMES } from './setting-names.ts'
import { similarTo } from './similar.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Beginnings of settings: what begins so and is none was meant to be one, or belongs to another program. */
const PREFIX = /^(ENFORCER|SYNC|ADMIN|REDIS|NATS|DATABASE|OIDC|QUOTAPLANE)_/

/** Names of other programs are compared too, but shorter ones are near to too much: `REGIONS` may well be theirs. */
const NEAR_LENGTH_MIN = 8
const NEAR_LETTERS = 2

/** What Kubernetes tells each pod of a service in its namespace, such as one that is called `enforcer`. */
const SERVICE_LINK = /_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_|$)/
const LINK_ADDRESS = /^(tcp|udp|sctp):\/\//

const KNOWN: ReadonlySet<string> = new Set([
  ...SETTING_NAMES.flatMap((name) => [name, `${name}_FILE`]),
  ...OTHER_NAMES,
])

export interface UnknownSetting {
  readonly name: string
  /** Whether it is nearly a setting; otherwise it may well be another program's. */
  readonly isMisspelt: boolean
  readonly message: string
}

/** Whether Kubernetes set this variable and not a person: of a service `enforcer` it says `ENFORCER_PORT=tcp://…`. */
export function isServiceLink(name: string, value: string): boolean {
  return SERVICE_LINK.test(name) || (name.endsWith('_PORT') && LINK_ADDRESS.test(value))
}

/**
 * The names in `environment` that are no setting of any service though they begin like one, or are nearly one; each
 * with the words that say so and which was probably meant. Values are not looked at but to tell service links.
 */
export function unknownSettings(environment: Environment): readonly UnknownSetting[] {
  return Object.entries(environment).flatMap(([name, value]) => {
    if (!value || KNOWN.has(name) || isServiceLink(name, value)) return []
    const meant = meantBy(name)
    if (meant === null && !PREFIX.test(name)) return []
    const hint = meant === null ? 'docs/settings.md has them all' : `did you mean ${meant}?`
    return [{ name, isMisspelt: meant !== null, message: `is no setting; ${hint}` }]
  })
}

/**
 * Says in the log what looks like a setting and is none. It may be another program's, so the service starts; what
 * is nearly one of its own has ended the start before (`readEnvOrExit`).
 */
export function warnOfUnknown(environment: Environment, log: Pick<Logger, 'warn'>): void {
  for (const { name, message } of unknownSettings(environment)) {
    log.warn({ variable: name, hint: message }, 'ignoring a variable that looks like a setting')
  }
}

function meantBy(name: string): string | null {
  const bare = name.replace(/_FILE$/, '')
  const nearest = nearestTo(bare)
  return nearest === null || bare === name ? nearest : `${nearest}_FILE`
}

function nearestTo(name: string): string | null {
  const [prefix] = PREFIX.exec(name) ?? []
  if (prefix !== undefined) {
    const ends = SETTING_NAMES.filter((one) => one.startsWith(prefix)).map((one) =>
      one.slice(prefix.length),
    )
    const end = name.slice(prefix.length)
    const near = similarTo(end, ends) ?? ends.find((one) => similarTo(sorted(one), [sorted(end)]))
    if (near !== undefined) return `${prefix}${near}`
  }
  if (name.length < NEAR_LENGTH_MIN) return null
  // A unit that was left out is more than two letters.
  const whole = SETTING_NAMES.find((one) => one.startsWith(`${name}_`))
  return whole ?? similarTo(name, SETTING_NAMES, NEAR_LETTERS)
}

/** By its words, whatever their order: `TOKEN_REQUIRED` is nearly `REQUIRE_TOKEN`. */
function sorted(name: string): string {
  return name.split('_').sort().join('_')
}
