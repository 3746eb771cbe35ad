import { experimental, ServerCredentials } from '@grpc/grpc-js'
import type { ListenTls } from '../../../shared/runtime/tls.ts'

type Provider = experimental.CertificateProvider

/** What the gRPC listener shows, and whom it believes; renewed certificates are used for the connections that follow. */
export function credentialsOf(tls: ListenTls | null): ServerCredentials {
  if (tls === null) return ServerCredentials.createInsecure()
  const provider = providerOf(tls)
  const authority = tls.clientCa === undefined ? null : provider
  // The declaration calls its parameters the other way round than the code takes them: first one's own certificate.
  return experimental.createCertificateProviderServerCredentials(provider, authority, true)
}

/** Tells each listener of it what there is, and again whenever it is renewed. */
function providerOf(tls: ListenTls): Provider {
  const tellers = new Map<unknown, () => void>()
  const add = (listener: unknown, tell: () => void): void => {
    tellers.set(listener, tell)
    // The server hears of an update only once it has added its listeners.
    queueMicrotask(tell)
  }
  const remove = (listener: unknown): void => void tellers.delete(listener)
  tls.onChange?.(() => {
    for (const tell of tellers.values()) tell()
  })
  return {
    addCaCertificateListener: (listener) =>
      add(listener, () => listener({ caCertificate: Buffer.from(tls.clientCa ?? '') })),
    removeCaCertificateListener: remove,
    addIdentityCertificateListener: (listener) =>
      add(listener, () =>
        listener({
          certificate: Buffer.from(tls.cert),
          privateKey: Buffer.from(tls.key.reveal()),
        }),
      ),
    removeIdentityCertificateListener: remove,
  }
}
