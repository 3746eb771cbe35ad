/**
 * Certificates by which the NATS servers of the regions know one another: an authority of the plane's own, and one
 * for each region's server, which shows it to those that connect and where it connects.
 */
import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import { isIP } from 'node:net'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'

type CryptoKey = webcrypto.CryptoKey
type CryptoKeyPair = webcrypto.CryptoKeyPair

/**
 * Ten years. They are for nothing but these links, under an authority that nobody else believes, and one that ends
 * unnoticed parts every region from the others; who wants shorter ones takes those of an authority of their own.
 */
const GOOD_FOR_DAYS = 3_650
const DAY_MS = 86_400_000

/** The clocks of hosts differ. */
const GOOD_BEFORE_MS = 3_600_000

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const

/** A certificate and its key, PEM texts. */
export interface Pair {
  readonly cert: string
  readonly key: string
}

/** A new authority, which can make certificates and no further authorities. */
export async function createAuthority(): Promise<Pair> {
  const keys = await newKeys()
  const cert = await X509CertificateGenerator.createSelfSigned({
    name: 'CN=quotaplane gateways',
    ...goodFor(),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
    ],
  })
  return { cert: pemOf(cert), key: await keyPem(keys.privateKey) }
}

/** A certificate of `authority` for a server that others know by each of `hosts`, names and addresses. */
export async function createCertificate(
  authority: Pair,
  name: string,
  hosts: readonly string[],
): Promise<Pair> {
  const keys = await newKeys()
  const issuer = new X509Certificate(authority.cert)
  const cert = await X509CertificateGenerator.create({
    subject: `CN=${name}`,
    issuer: issuer.subject,
    ...goodFor(),
    publicKey: keys.publicKey,
    signingKey: await readKey(authority.key),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
      new SubjectAlternativeNameExtension(
        hosts.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const),
      ),
    ],
  })
  return { cert: pemOf(cert), key: await keyPem(keys.privateKey) }
}

function goodFor() {
  const nowMs = Date.now()
  return {
    notBefore: new Date(nowMs - GOOD_BEFORE_MS),
    notAfter: new Date(nowMs + GOOD_FOR_DAYS * DAY_MS),
  }
}

function newKeys(): Promise<CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
}

async function keyPem(key: CryptoKey): Promise<string> {
  const der = await webcrypto.subtle.exportKey('pkcs8', key)
  return `${PemConverter.encode(der, PemConverter.PrivateKeyTag)}\n`
}

function readKey(pem: string): Promise<CryptoKey> {
  return webcrypto.subtle.importKey('pkcs8', PemConverter.decodeFirst(pem), ALGORITHM, false, [
    'sign',
  ])
}

function pemOf(cert: X509Certificate): string {
  return `${cert.toString('pem')}\n`
}
