import { nkeys } from 'nats'
import { z } from 'zod'
import { pem, type Secret, secret } from '../runtime/env.ts'
import { refuseUnusableTls } from '../runtime/tls.ts'
import { NatsLink, type NatsLinkOptions, type NatsSecurity } from './client.ts'

/** One or more servers of one region's NATS. */
export const natsUrl = z
  .string()
  .refine((text) => text.split(',').every((one) => isNatsUrl(one.trim())), {
    error: 'must be a nats:// or tls:// URL with a host; several, separated by commas',
  })

function isNatsUrl(text: string): boolean {
  return URL.canParse(text) && /^(nats|tls):\/\/[^/?#]/.test(text)
}

/** Environment variables by which a service is known to NATS, and knows it. Each can be a file: `NATS_CA_FILE`. */
export const natsSecurityEnv = {
  NATS_NKEY_SEED: secret.optional(),
  NATS_CA: pem.optional(),
  NATS_CERT: pem.optional(),
  NATS_KEY: secret.optional(),
}

/** The settings of the certificates for it. */
export const NATS_CERTIFICATES = {
  use: 'nats',
  cert: 'NATS_CERT',
  key: 'NATS_KEY',
  ca: 'NATS_CA',
} as const

interface NatsSecurityConfig {
  readonly NATS_NKEY_SEED?: Secret | undefined
  readonly NATS_CA?: string | undefined
  readonly NATS_CERT?: string | undefined
  readonly NATS_KEY?: Secret | undefined
}

/** Refuses a seed and certificates that could not be used: the service would start, and never connect. */
export function refuseUnusableNats(
  config: NatsSecurityConfig,
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): void {
  refuseUnusableTls({ ...config }, NATS_CERTIFICATES, ctx)
  if (config.NATS_NKEY_SEED === undefined || isUserSeed(config.NATS_NKEY_SEED)) return
  const message = 'is no seed of a user; give what `quotaplane keys create` wrote into nats-….seed'
  ctx.addIssue({ code: 'custom', path: ['NATS_NKEY_SEED'], message })
}

function isUserSeed(seed: Secret): boolean {
  try {
    const pair = nkeys.fromSeed(new TextEncoder().encode(seed.reveal()))
    return pair.getPublicKey().startsWith('U')
  } catch {
    // What is wrong with it may quote it.
    return false
  }
}

/** What `NatsLink` takes of those variables. Throws when a certificate comes without its key, or a key alone. */
export function natsSecurity(config: NatsSecurityConfig): NatsSecurity {
  if ((config.NATS_CERT === undefined) !== (config.NATS_KEY === undefined)) {
    throw new Error('NATS_CERT and NATS_KEY belong together: set both or none')
  }
  return {
    nkeySeed: config.NATS_NKEY_SEED,
    get ca() {
      return config.NATS_CA
    },
    get cert() {
      return config.NATS_CERT
    },
    get key() {
      return config.NATS_KEY
    },
  }
}

/** A link by these settings, not started yet. `name` and `region` are as of `NatsLinkOptions`. */
export function createNatsLink(
  config: NatsSecurityConfig & { readonly NATS_URL: string },
  options: Pick<NatsLinkOptions, 'name' | 'region' | 'log'>,
): NatsLink {
  return new NatsLink({ url: config.NATS_URL, security: natsSecurity(config), ...options })
}
