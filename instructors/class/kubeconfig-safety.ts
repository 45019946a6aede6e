import { parseDocument } from 'yaml'
import * as z from 'zod'
import type { ClusterAccess } from '../../cluster/api-client.ts'
import { isNestedDeeply } from '../../dataplane/kube-proxy/config.ts'
import { quoted } from '../../host/plain-text.ts'
import { refuse, requireHarmless } from '../submission/untrusted-text.ts'

/**
 * A kubeconfig of `kubectl config view --flatten` has a few thousand bytes; with a chain of
 * certificate authorities it is larger.
 */
const LIMIT = 2 ** 18

const base64 = z.string().regex(/^[A-Za-z0-9+/=\s]+$/)
const hostName = z.string().regex(/^[A-Za-z0-9.:-]{1,253}$/)
/** Characters that are valid in an HTTP header (RFC 6750 allows fewer). */
const headerText = z.string().regex(/^[\x21-\x7e]+$/)
const clusterFields = {
  server: z.string(),
  'certificate-authority-data': base64.optional(),
  'tls-server-name': hostName.optional(),
  'insecure-skip-tls-verify': z.boolean().optional(),
}
const userFields = {
  token: headerText.optional(),
  'client-certificate-data': base64.optional(),
  'client-key-data': base64.optional(),
}
/** Fields that do not affect how a cluster is reached. They are dropped silently. */
const IDLE = ['extensions', 'disable-compression']

const entries = z.array(z.record(z.string(), z.unknown()))
const outline = z.object({
  'current-context': z.string().min(1),
  clusters: entries,
  users: entries,
  contexts: entries,
})
const contextFields = z.object({ cluster: z.string(), user: z.string() })

/**
 * Reads only the required fields of a learner's kubeconfig: every returned value is copied from the
 * current context, so that no program, file, proxy or other identity in the text can be used
 * through it.
 * @throws Refusal with one sentence; it names a field that would be dropped, because the cluster
 * might not be reachable without it
 */
export function clusterAccess(text: string): ClusterAccess {
  if (text.length > LIMIT) refuse(`Its kubeconfig is larger than ${LIMIT / 2 ** 10} KiB.`)
  const read = outline.safeParse(parsed(text))
  if (!read.success)
    refuse('It is not a kubeconfig with a current-context, clusters, users and contexts.')
  const { clusters, users, contexts, 'current-context': current } = read.data
  const context = contextFields.safeParse(named(contexts, current, 'context'))
  const cluster = context.success && named(clusters, context.data.cluster, 'cluster')
  if (!cluster) refuse('Its current-context names no cluster in it.')
  const user = named(users, context.data.user, 'user')
  if (!user) refuse('Its current-context names no user in it.')
  const place = fieldsOf(cluster, clusterFields, 'cluster')
  const login = fieldsOf(user, userFields, 'user')
  const { token, 'client-certificate-data': certData, 'client-key-data': keyData } = login
  const certificate =
    certData !== undefined && keyData !== undefined ? { certData, keyData } : undefined
  if (token === undefined && !certificate)
    refuse(`Its user has neither a token nor a client certificate with its key: ${ADVICE}`)
  return {
    server: httpsAddress(place.server),
    skipTLSVerify: place['insecure-skip-tls-verify'] === true,
    caData: place['certificate-authority-data'],
    tlsServerName: place['tls-server-name'],
    token,
    ...certificate,
  }
}

const ADVICE = 'ask for one made by `kubectl config view --flatten --minify --raw` with a token.'

/** Copies only the known fields of an entry. */
function fieldsOf<Shape extends z.ZodRawShape>(
  entry: Record<string, unknown>,
  shape: Shape,
  what: string,
) {
  const extra = Object.keys(entry).find((key) => !Object.hasOwn(shape, key) && !IDLE.includes(key))
  if (extra !== undefined)
    refuse(
      `Its ${what} has ${quoted(extra)}; programs and files of this machine, proxies and other identities are not used for it: ${ADVICE}`,
    )
  const read = z.object(shape).safeParse(entry)
  if (read.success) return read.data
  return refuse(
    `Its ${what} has a ${quoted(String(read.error.issues[0]?.path[0]))} that is not what kubectl writes.`,
  )
}

function named(list: readonly Record<string, unknown>[], name: string, field: string) {
  const entry = z
    .record(z.string(), z.unknown())
    .safeParse(list.find((one) => one.name === name)?.[field])
  return entry.success ? entry.data : undefined
}

function httpsAddress(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (
    url?.protocol !== 'https:' ||
    url.username ||
    url.password ||
    url.search ||
    url.hash ||
    /[\s"'\\{}]/.test(text)
  )
    return refuse(`Its server ${quoted(text)} is not an https address.`)
  return url.href.replace(/\/+$/, '')
}

/**
 * The text as plain values; undefined if it is not a single YAML document. Aliases, whose expansion
 * could be unbounded, are not accepted.
 */
function parsed(text: string): unknown {
  let value: unknown
  try {
    if (isNestedDeeply(text)) return undefined
    const document = parseDocument(text, { logLevel: 'error', prettyErrors: false })
    if (document.errors.length > 0) return undefined
    value = document.toJS({ maxAliasCount: 0 })
  } catch {
    return undefined
  }
  requireHarmless(value, 'kubeconfig')
  return value
}
