import { stringify } from 'yaml'

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
