import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'
import { stringify } from 'yaml'

export interface ServerTls {
  /** The server's certificate, PEM: it is its own authority, which clients trust. */
  cert: string
  key: string
}

/** Names and addresses under which an API server of a cluster is reached. */
export const serverNames = [
  '127.0.0.1',
  'localhost',
  '10.96.0.1',
  '172.18.0.2',
  ...['', '.default', '.default.svc', '.default.svc.cluster.local'].map(
    (suffix) => `kubernetes${suffix}`,
  ),
]

/** Object identifiers as elements. */
const oid = {
  ecdsaWithSha256: Buffer.from('06082a8648ce3d040302', 'hex'),
  commonName: Buffer.from('0603550403', 'hex'),
  subjectAltName: Buffer.from('0603551d11', 'hex'),
  basicConstraints: Buffer.from('0603551d13', 'hex'),
}

/**
 * A certificate of a server that is signed by itself (X.509 v3, EC P-256, RFC 5280), valid without
 * an end, for these names and IPv4 addresses.
 */
export function createServerTls(names: readonly string[] = serverNames): ServerTls {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(oid.ecdsaWithSha256)
  const serial = randomBytes(16)
  // A positive number with a first byte that isn't zero, for any random bytes.
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40
  // UTCTime and, for no end, GeneralizedTime (RFC 5280 4.1.2.5).
  const validity = sequence(element(0x17, '200101000000Z'), element(0x18, '99991231235959Z'))
  const name = sequence(setOf(sequence(oid.commonName, element(0x0c, 'kubernetes'))))
  const extensions = sequence(
    // It is an authority, and this extension is critical.
    sequence(oid.basicConstraints, isTrue, octetString(sequence(isTrue))),
    sequence(oid.subjectAltName, octetString(sequence(...names.map(alternativeName)))),
  )
  const body = sequence(
    element(0xa0, integer(Buffer.from([2]))),
    integer(serial),
    algorithm,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    element(0xa3, extensions),
  )
  const der = sequence(
    body,
    algorithm,
    element(0x03, Buffer.concat([wholeBytes, sign('sha256', body, privateKey)])),
  )
  return { cert: pem(der), key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })) }
}

function alternativeName(name: string): Buffer {
  return isIP(name) ? element(0x87, Buffer.from(name.split('.').map(Number))) : element(0x82, name)
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

// The few ASN.1 types of an X.509 certificate in DER (ITU-T X.690). 0xa0 + N is `[N]` around an
// element, 0x80 + N replaces its tag.

function element(tag: number, content: Uint8Array | string): Buffer {
  const { length } = content
  const bytes = Buffer.from(content)
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), bytes])
  const lengthBytes = Buffer.from(length.toString(16).padStart(length > 0xff ? 4 : 2, '0'), 'hex')
  return Buffer.concat([Buffer.from([tag, 0x80 | lengthBytes.length]), lengthBytes, bytes])
}

/** A writer of elements with a tag. */
function tagged(tag: number): (...content: Uint8Array[]) => Buffer {
  return (...content) => element(tag, Buffer.concat(content))
}

/** A number from its bytes, the first below 0x80. */
const integer = tagged(0x02)
const octetString = tagged(0x04)
const sequence = tagged(0x30)
const setOf = tagged(0x31)
const isTrue = element(0x01, Buffer.from([0xff]))
/** The beginning of a bit string without unused bits at its end. */
const wholeBytes = Buffer.from([0])

/**
 * Text of a kubeconfig that reaches one cluster (`server` is a URL, `ca` the PEM to trust) with a
 * token, and nothing else.
 */
export function kubeconfig(options: {
  name: string
  server: string
  ca: string
  token: string
}): string {
  const { name, server, ca, token } = options
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name,
        cluster: { server, 'certificate-authority-data': Buffer.from(ca).toString('base64') },
      },
    ],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  })
}
