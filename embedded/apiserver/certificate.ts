import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'
import {
  bitString,
  boolean,
  explicit,
  implicit,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  time,
  utf8String,
} from './der.ts'

export interface ServerTls {
  /** The cluster's authority, PEM: what clients trust. */
  ca: string
  /** The server's certificate and key, PEM. */
  cert: string
  key: string
}

/** Names and addresses under which an API server of a cluster is reached. */
export const serverNames = [
  '127.0.0.1',
  'localhost',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
].concat(['kubernetes.default.svc.cluster.local', '10.96.0.1', '172.18.0.2'])

const oid = {
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  commonName: '2.5.4.3',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
}

/** A new authority and a server certificate signed by it (X.509 v3, EC P-256, RFC 5280), valid for ten years. */
export function createServerTls(names: readonly string[] = serverNames, now = new Date()): ServerTls {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const server = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issuer = { name: 'kubernetes', key: authority.privateKey, publicKey: authority.publicKey }
  const caExtensions = [
    extension(oid.basicConstraints, sequence(boolean(true)), true),
    // digitalSignature, keyEncipherment, keyCertSign
    extension(oid.keyUsage, bitString(Buffer.from([0b1010_0100]), 2), true),
    extension(oid.subjectKeyIdentifier, octetString(keyIdentifier(authority.publicKey))),
  ]
  const serverExtensions = [
    extension(oid.basicConstraints, sequence(), true),
    // digitalSignature, keyEncipherment
    extension(oid.keyUsage, bitString(Buffer.from([0b1010_0000]), 5), true),
    extension(oid.extendedKeyUsage, sequence(objectIdentifier(oid.serverAuth))),
    extension(oid.authorityKeyIdentifier, sequence(implicit(0, keyIdentifier(authority.publicKey)))),
    extension(oid.subjectAltName, sequence(...names.map(alternativeName))),
  ]
  return {
    ca: pem(certify('kubernetes', authority.publicKey, caExtensions, issuer, now)),
    cert: pem(certify('kube-apiserver', server.publicKey, serverExtensions, issuer, now)),
    key: String(server.privateKey.export({ type: 'pkcs8', format: 'pem' })),
  }
}

function certify(
  subject: string,
  publicKey: KeyObject,
  extensions: Buffer[],
  issuer: { name: string; key: KeyObject },
  now: Date,
): Buffer {
  const algorithm = sequence(objectIdentifier(oid.ecdsaWithSha256))
  const serial = randomBytes(16)
  // A positive number with a first byte that isn't zero, for any random bytes.
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40
  const day = 24 * 60 * 60 * 1000
  const validity = sequence(time(new Date(now.getTime() - day)), time(new Date(now.getTime() + 3650 * day)))
  const body = sequence(
    explicit(0, integer(Buffer.from([2]))),
    integer(serial),
    algorithm,
    distinguishedName(issuer.name),
    validity,
    distinguishedName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    explicit(3, sequence(...extensions)),
  )
  return sequence(body, algorithm, bitString(sign('sha256', body, issuer.key)))
}

function distinguishedName(commonName: string): Buffer {
  return sequence(setOf(sequence(objectIdentifier(oid.commonName), utf8String(commonName))))
}

function extension(id: string, value: Buffer, critical = false): Buffer {
  return sequence(objectIdentifier(id), ...(critical ? [boolean(true)] : []), octetString(value))
}

function alternativeName(name: string): Buffer {
  if (isIP(name) === 4) return implicit(7, Buffer.from(name.split('.').map(Number)))
  return implicit(2, Buffer.from(name))
}

function keyIdentifier(key: KeyObject): Buffer {
  return createHash('sha1')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest()
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}
