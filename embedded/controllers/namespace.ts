import { hasReason } from '../apiserver/status-error.ts'
import { type ControllerContext, keyOf } from './context.ts'
import type { ConfigMap, Namespace } from './resources.ts'

const serviceAccount = 'default'
const rootCertificate = 'kube-root-ca.crt'

/**
 * Gives every namespace the `default` ServiceAccount and the `kube-root-ca.crt` ConfigMap with the cluster's CA, and puts
 * them back when changed or deleted. What is in a deleted namespace the API itself deletes.
 */
export function startNamespaceController(context: ControllerContext, caCertificate: string): void {
  const { api } = context

  const queue = context.queue((name) => {
    const namespace = api.get<Namespace>('namespaces', undefined, name)
    if (!namespace || namespace.metadata.deletionTimestamp) return
    if (!api.get('serviceaccounts', name, serviceAccount)) {
      ensure('serviceaccounts', name, { metadata: { name: serviceAccount, namespace: name } })
    }
    const data = { 'ca.crt': caCertificate }
    const stored = api.get<ConfigMap>('configmaps', name, rootCertificate)
    if (!stored) ensure('configmaps', name, { metadata: { name: rootCertificate, namespace: name, annotations }, data })
    else if (stored.data?.['ca.crt'] !== caCertificate) api.update<ConfigMap>('configmaps', { ...stored, data })
  })

  function ensure(resource: string, namespace: string, object: Record<string, unknown>) {
    try {
      api.create(resource, namespace, object)
    } catch (error) {
      if (!hasReason(error, 'AlreadyExists')) throw error
    }
  }

  context.watch<Namespace>('namespaces', ({ type, object }) => {
    if (type !== 'DELETED') queue.add(keyOf(object))
  })
  for (const [resource, name] of [
    ['serviceaccounts', serviceAccount],
    ['configmaps', rootCertificate],
  ] as const) {
    context.watch(resource, ({ type, object }) => {
      if (type !== 'ADDED' && object.metadata.name === name) queue.add(object.metadata.namespace ?? '')
    })
  }
}

const annotations = {
  'kubernetes.io/description':
    'The certificate of the authority that signed the API server’s; Pods verify the server with it.',
}
