import { parseDocument } from 'yaml'
import { z } from 'zod'
import { quoted, refuse } from '../submission/refusal.ts'

const entry = z.looseObject({ name: z.string() })
const kubeconfigSchema = z.looseObject({
  'current-context': z.string().min(1),
  clusters: z.array(entry.extend({ cluster: z.looseObject({ server: z.string() }) })).min(1),
  users: z.array(entry.extend({ user: z.looseObject({}).nullish() })).default([]),
  contexts: z.array(entry.extend({ context: z.looseObject({ cluster: z.string() }) })).min(1),
})

/** Entries that name files of this machine or programs to run on it: a stranger's kubeconfig may do neither. */
const FORBIDDEN = ['exec', 'auth-provider', 'tokenFile', 'client-certificate', 'client-key', 'certificate-authority']

/**
 * Refuses a kubeconfig that would run a program here, read a file of this machine, or has no one cluster to talk to. What it
 * needs must stand in it (as `kubectl config view --flatten --minify` prints it). Returns the server's address.
 */
export function requireSelfContained(text: string): string {
  if (text.length > 2 ** 20) refuse('Its kubeconfig is larger than a megabyte.')
  const read = kubeconfigSchema.safeParse(parsed(text))
  if (!read.success) refuse('It is no kubeconfig with a current-context, a cluster and a context.')
  const { clusters, users, contexts } = read.data
  for (const { name, ...rest } of [...clusters, ...users])
    for (const value of Object.values(rest)) {
      const found = FORBIDDEN.find((key) => typeof value === 'object' && value !== null && key in value)
      if (found)
        refuse(
          `Its entry ${quoted(name)} has ${quoted(found)}, which would use programs or files of this machine: ask for one made by \`kubectl config view --flatten --minify --raw\` with a token.`,
        )
    }
  const current = contexts.find(({ name }) => name === read.data['current-context'])
  const cluster = clusters.find(({ name }) => name === current?.context.cluster)
  if (!cluster) refuse('Its current-context names no cluster in it.')
  const { server } = cluster.cluster
  if (!/^https:\/\/[^\s"'\\]+$/.test(server)) refuse(`Its server ${quoted(server)} is no https address.`)
  return server
}

function parsed(text: string): unknown {
  try {
    // Aliases in YAML can unfold into more than memory holds.
    const document = parseDocument(text, { logLevel: 'silent' })
    return document.errors.length > 0 ? undefined : document.toJS({ maxAliasCount: 20 })
  } catch {
    return undefined
  }
}
