import { Refusal } from '../../dataplane/refusal.ts'
import { consent } from '../consent.ts'
import type { Cluster, ReadApi } from '../driver.ts'

/**
 * The label of every object that we create in a cluster of the user; no other object is changed or
 * deleted there.
 */
export const ownLabel = { 'app.kubernetes.io/managed-by': 'kube-service-labs' } as const
export const ownSelector = 'app.kubernetes.io/managed-by=kube-service-labs'

/** A change was refused because its object is not ours; the object is unchanged. */
export class ForeignObjectError extends Refusal {}

/** One request to the API, before it is sent. */
export interface ApiRequest {
  method: string
  url: string
  body: string | undefined
}

interface WriteTarget {
  /** Path of the objects of that kind, in their namespace where they have one. */
  collection: string
  resource: string
  namespace: string | undefined
  name: string | undefined
}

interface Metadata {
  name?: string
  labels?: Record<string, string>
}

interface WrittenObject {
  kind?: string
  metadata?: Metadata
  spec?: { selector?: unknown; template?: { metadata?: Metadata } }
}

/** A server may be behind a path of its own, which is not part of the collection. */
const objectPath =
  /^(?:\/[^/]+)*?(\/(?:api\/v1|apis\/[^/]+\/[^/]+)\/(?:namespaces\/([^/]+)\/)?([a-z]+))(?:\/([^/]+))?(?:\/[^/]+)*$/

/** Which object a URL of the API names. Throws Error for a path of another form. */
function writeTarget(url: string): WriteTarget {
  const path = decodeURIComponent(new URL(url).pathname)
  const [, collection, namespace, resource, name] = objectPath.exec(path) ?? []
  if (collection === undefined || resource === undefined)
    throw new Error(`"${path}" is not the path of an object.`)
  return { collection, namespace, resource, name }
}

/**
 * The labs change kube-proxy and the nodes (mode, cordon, labels); the consent question names them.
 */
const isSubjectOfLabs = (
  { namespace, resource, name }: WriteTarget,
  object: WrittenObject,
  method: string,
) =>
  (namespace === 'kube-system' &&
    name === 'kube-proxy' &&
    (resource === 'configmaps' || resource === 'daemonsets')) ||
  (namespace === 'kube-system' &&
    resource === 'pods' &&
    object.metadata?.labels?.['k8s-app'] === 'kube-proxy') ||
  (namespace === undefined && resource === 'nodes' && method === 'PATCH')

/**
 * Guards a cluster of the user's kubeconfig: a request that changes something asks for consent, is
 * refused if the object is not ours, and adds our label to what it creates.
 * @returns the body to send
 * @throws ConsentError, ForeignObjectError
 */
export async function guardWrite(
  cluster: Pick<Cluster, 'capabilities' | 'name'>,
  request: ApiRequest,
  read: ReadApi,
): Promise<string | undefined> {
  const { method, url, body } = request
  if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return body
  const target = writeTarget(url)
  const sent = method === 'POST' || method === 'PUT' ? parsed(body) : undefined
  const name = target.name ?? sent?.metadata?.name
  await consent(cluster, `${verbs[method] ?? method} ${describe({ ...target, name })}`)
  if (name === undefined)
    throw new Error(
      `Without a name, ${describe(target)} are not changed in a cluster of your kubeconfig.`,
    )
  const present = (await read(`${target.collection}/${name}`)) as WrittenObject | undefined
  if (present && !isOwn(present) && !isSubjectOfLabs({ ...target, name }, present, method))
    throw new ForeignObjectError(
      `${describe({ ...target, name })} does not belong to these labs (it has no label ${ownSelector}) and was not changed: rename or remove it, or use another cluster. If a lab created it with CLUSTER=kind, \`CLUSTER=kind make reset-N\` with the lab's number removes it.`,
    )
  if (!sent) return body
  if (method === 'POST' && !present) await requireNoMixing(target, sent, read)
  return JSON.stringify(labelled(sent))
}

const verbs: Record<string, string> = {
  POST: 'create',
  PUT: 'replace',
  PATCH: 'change',
  DELETE: 'delete',
}

const isOwn = ({ metadata }: WrittenObject) =>
  Object.entries(ownLabel).every(([key, value]) => metadata?.labels?.[key] === value)

const describe = ({
  resource,
  namespace,
  name,
}: Pick<WriteTarget, 'resource' | 'namespace' | 'name'>) =>
  `${resource}${name === undefined ? '' : ` "${name}"`}${namespace === undefined ? '' : ` in namespace "${namespace}"`}`

function parsed(body: string | undefined): WrittenObject {
  const object: unknown = JSON.parse(body ?? '{}')
  return object instanceof Object ? object : {}
}

/** The object with our label, also on the Pods of its template. */
function labelled(object: WrittenObject): WrittenObject {
  const withLabel = (metadata: Metadata = {}) => ({
    ...metadata,
    labels: { ...metadata.labels, ...ownLabel },
  })
  const template = object.spec?.template
  return {
    ...object,
    metadata: withLabel(object.metadata),
    ...(template && {
      spec: { ...object.spec, template: { ...template, metadata: withLabel(template.metadata) } },
    }),
  }
}

/**
 * A foreign Service must not select our Pods, and our Services must not select foreign Pods;
 * matching labels are enough for either.
 */
async function requireNoMixing(
  { namespace, resource }: WriteTarget,
  sent: WrittenObject,
  read: ReadApi,
): Promise<void> {
  if (namespace === undefined) return
  const foreign = async (kind: 'pods' | 'services') => {
    const list = (await read(`/api/v1/namespaces/${namespace}/${kind}`)) as
      | { items?: WrittenObject[] }
      | undefined
    return (list?.items ?? []).filter((object) => !isOwn(object))
  }
  const labels = resource === 'pods' ? sent.metadata?.labels : sent.spec?.template?.metadata?.labels
  const mixing =
    resource === 'services'
      ? (await foreign('pods')).filter(({ metadata }) =>
          selectsPods(sent.spec?.selector, metadata?.labels),
        )
      : labels &&
        (await foreign('services')).filter(({ spec }) => selectsPods(spec?.selector, labels))
  const [first] = mixing || []
  if (!first) return
  const other = resource === 'services' ? 'Pod' : 'Service'
  throw new ForeignObjectError(
    `${describe({ resource, namespace, name: sent.metadata?.name })} would mix with ${other} "${first.metadata?.name}", which does not belong to these labs, because of its labels; nothing was created: use a cluster without it.`,
  )
}

/**
 * Whether a Service's selector selects Pods with these labels; a Service without a selector selects
 * none.
 */
function selectsPods(selector: unknown, labels: Record<string, string> = {}): boolean {
  const wanted = Object.entries(selector instanceof Object ? selector : {})
  return wanted.length > 0 && wanted.every(([key, value]) => labels[key] === value)
}
