/** Keeps the certificates of a service as new as their files, and shows until when they are good. */
import { CertificateFiles } from './certificates.ts'
import { systemClock } from './clock.ts'
import { every, type Loop } from './every.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Logger } from './logger.ts'
import { gauge, type Registry } from './metrics.ts'
import type { CertificateSettings } from './tls.ts'

/**
 * How soon a renewed file is in use without a signal. What renews certificates does so days before they end; this is
 * short so that a person who replaced one sees the effect. Watching the files instead misses the way in which
 * Kubernetes replaces a mounted secret, by a symbolic link to another folder.
 */
const LOOK_INTERVAL_MS = 10_000
const READ_TIMEOUT_MS = 5_000

/**
 * Holds `config`'s certificates; with files, reads them again at intervals and on SIGHUP, which would end a process that
 * does not heed it. Returns the files' book, whose `over` gives the settings to connect and listen by.
 */
export async function keepCertificates(options: {
  readonly config: object
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly uses: readonly CertificateSettings[]
  readonly log: Logger
  readonly life: Lifecycle
  readonly registry: Registry
  readonly onBug: (err: Error) => void
}): Promise<CertificateFiles> {
  const { config, environment, uses, log, life, registry, onBug } = options
  const { wallMs } = systemClock
  const files = new CertificateFiles({ config: { ...config }, environment, uses, log, wallMs })
  observeCertificates(registry, files)
  const loop = files.isByFile
    ? await life.acquire(
        'certificates',
        () =>
          every(
            {
              name: 'certificates',
              intervalMs: LOOK_INTERVAL_MS,
              timeoutMs: READ_TIMEOUT_MS,
              log,
              onBug,
            },
            (signal) => files.readOnce(signal),
          ),
        (open: Loop) => open.stop(),
      )
    : null
  process.on('SIGHUP', () => {
    log.info({}, 'asked to read certificates again')
    loop?.wake()
  })
  return files
}

/** Declares until when certificates are good, and whether what their files hold now can be used. */
export function observeCertificates(
  registry: Registry,
  files: Pick<CertificateFiles, 'ends' | 'states'>,
): void {
  gauge(registry, {
    name: 'quotaplane_certificate_expiry_timestamp_seconds',
    help: 'When a certificate that this service shows ends, by what it is shown for.',
    labelNames: ['use'],
    collect() {
      for (const { use, atSeconds } of files.ends()) this.set({ use }, atSeconds)
    },
  })
  gauge(registry, {
    name: 'quotaplane_certificate_unusable',
    help: 'Whether the files of a certificate cannot be used, so that the one before is kept.',
    labelNames: ['use'],
    collect() {
      for (const { use, isUnusable } of files.states()) this.set({ use }, isUnusable ? 1 : 0)
    },
  })
}
