import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'
import { stringify } from 'yaml'

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

// The few ASN.1 types of an X.509 certificate in DER (ITU-T X.690).

function element(tag: number, content: Uint8Array): Buffer {
  const length = content.length
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content])
  const bytes = Buffer.from(length.toString(16).padStart(length > 0xff ? 4 : 2, '0'), 'hex')
  return Buffer.concat([Buffer.from([tag, 0x80 | bytes.length]), bytes, content])
}

function sequence(...items: Uint8Array[]): Buffer {
  return element(0x30, Buffer.concat(items))
}

function setOf(item: Uint8Array): Buffer {
  return element(0x31, item)
}

/** A non-negative integer given as its bytes, most significant first. */
function integer(bytes: Uint8Array): Buffer {
  return element(0x02, (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes)
}

function boolean(value: boolean): Buffer {
  return element(0x01, Buffer.from([value ? 0xff : 0]))
}

function octetString(content: Uint8Array): Buffer {
  return element(0x04, content)
}

/** Whole bytes, or a named bit list with some unused bits at the end. */
function bitString(content: Uint8Array, unusedBits = 0): Buffer {
  return element(0x03, Buffer.concat([Buffer.from([unusedBits]), content]))
}

function utf8String(text: string): Buffer {
  return element(0x0c, Buffer.from(text))
}

function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const groups = [arc & 0x7f]
    for (let left = arc >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return element(0x06, Buffer.from(bytes))
}

/** UTCTime up to 2049, GeneralizedTime after, as RFC 5280 4.1.2.5 requires. */
function time(date: Date): Buffer {
  const digits = `${date.toISOString().replaceAll(/[-:T]|\.\d+Z$/g, '')}Z`
  return date.getUTCFullYear() < 2050 ? element(0x17, Buffer.from(digits.slice(2))) : element(0x18, Buffer.from(digits))
}

/** `[number]` around complete elements. */
function explicit(number: number, content: Uint8Array): Buffer {
  return element(0xa0 | number, content)
}

/** `[number]` in place of the tag of a primitive element. */
function implicit(number: number, content: Uint8Array): Buffer {
  return element(0x80 | number, content)
}

/** Text of a kubeconfig that reaches one cluster with a token, and nothing else. */
export function kubeconfig(options: {
  /** Name of cluster, user and context. */
  name: string
  /** `https://127.0.0.1:PORT`. */
  server: string
  /** PEM of the authority. */
  ca: string
  token: string
  namespace?: string
}): string {
  const { name, server, ca, token, namespace } = options
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority-data': Buffer.from(ca).toString('base64') } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, ...(namespace && { namespace }) } }],
    'current-context': name,
  })
}
