import type { Capture, NodeFiles } from '../cluster/capture-folder.ts'
import { isKubeProxyPod, kubeProxy, kubeProxyPods } from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { BoundedCache } from '../dataplane/bounded-cache.ts'
import { readCapturedNode } from '../dataplane/capture.ts'
import {
  ConfigError,
  defaultConfig,
  type KubeProxyConfig,
  likelyClusterCIDR,
  parseKubeProxyConfiguration,
} from '../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { type ClusterObjects, leftOutObjects, readObjects } from '../dataplane/objects.ts'
import { reasonOf } from '../host/main.ts'
import { type ApiObject, asApiObjects } from './api-object.ts'
import { Trouble } from './failure.ts'

const KUBE_PROXY = /^(?:Using|Using the) (\w+) Proxier/i

/**
 * The mode of a running kube-proxy: its /proxyMode, else the last `Using ipvs Proxier` line of its
 * log (all versions), else undefined.
 */
export function reportedMode(
  proxyMode: string | undefined,
  log: string | undefined,
): string | undefined {
  const mode = proxyMode?.trim()
  if (mode) return mode
  const modes = (log ?? '').split('\n').flatMap((line) => {
    const message = line.slice(line.indexOf('] ') + 2).replace(/^"/, '')
    return KUBE_PROXY.exec(message)?.[1] ?? []
  })
  return modes.at(-1)?.toLowerCase()
}

/**
 * kube-proxy's version on a node: the image tag of its Pod, else of a terminating or ended one (it
 * wrote the rules), else the Node's.
 */
export function kubeProxyVersionOn(items: readonly ApiObject[], node: string): string | Trouble {
  const pods = [...kubeProxyPods(items), ...items.filter(isKubeProxyPod)]
  const pod = pods.find((candidate) => candidate.spec?.nodeName === node)
  for (const { image } of pod?.spec?.containers ?? []) {
    const tag = /:(v\d+\.\d+[^@:]*)/.exec(image ?? '')?.[1]
    if (tag) return tag
  }
  const { kubeProxyVersion, kubeletVersion } =
    items.find(({ kind, metadata }) => kind === 'Node' && metadata.name === node)?.status
      ?.nodeInfo ?? {}
  return (
    kubeProxyVersion ||
    kubeletVersion ||
    new Trouble(`the version of kube-proxy on ${node} is not known`)
  )
}

/**
 * The configuration of kube-proxy's ConfigMap. Without it, kube-proxy's defaults are used with the
 * controller manager's Pod range, else with one derived from the nodes. A ConfigError is the reason
 * why kube-proxy would reject it.
 */
function kubeProxyConfigOf(
  items: readonly ApiObject[],
  objects: ClusterObjects | Trouble,
): KubeProxyConfig | ConfigError | Trouble {
  const map = items.find(
    ({ kind, metadata }) =>
      kind === 'ConfigMap' &&
      metadata.namespace === kubeProxy.namespace &&
      metadata.name === kubeProxy.name,
  )
  const text = map?.data?.['config.conf']
  if (text !== undefined)
    return readPart('the configuration of kube-proxy', () =>
      configs.getOrCreate(text, configOrReason),
    )
  if (objects instanceof Trouble) return objects
  const { features, clusterCIDR } = controllerManagerFlags(items)
  return {
    ...defaultConfig(),
    clusterCIDR: clusterCIDR || likelyClusterCIDR(objects),
    dualStack: /\bIPv6DualStack=true\b/.test(features),
  }
}

/**
 * A class has few configurations, and a guide one: reading YAML was a tenth of judging a
 * submission.
 */
const configs = new BoundedCache<KubeProxyConfig | ConfigError>(50)

function configOrReason(text: string): KubeProxyConfig | ConfigError {
  try {
    return parseKubeProxyConfiguration(text)
  } catch (error) {
    if (error instanceof ConfigError) return error
    throw error
  }
}

function controllerManagerFlags(items: readonly ApiObject[]): {
  features: string
  clusterCIDR: string
} {
  const pod = items.find(
    ({ kind, metadata }) =>
      kind === 'Pod' && metadata.labels?.component === 'kube-controller-manager',
  )
  const programs = (pod?.spec?.containers ?? []).flatMap(({ command, args }) => [
    ...(command ?? []),
    ...(args ?? []),
  ])
  const flag = (name: string) =>
    programs.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3) ?? ''
  return { features: flag('feature-gates'), clusterCIDR: flag('cluster-cidr') }
}

/**
 * A part of a capture; if it can't be read, the reason as a value, because only the steps that need
 * the part fail by it.
 */
function readPart<Part>(whose: string, read: () => Part): Part | Trouble {
  try {
    return read()
  } catch (error) {
    return new Trouble(`${whose} can't be read (${reasonOf(error)})`)
  }
}

/** A part that the caller can't do without: throws its Trouble when it could not be read. */
function required<Part>(part: Part | Trouble): Part {
  if (part instanceof Trouble) throw part
  return part
}

function readClusterObjects(
  raw: readonly unknown[],
): Pick<Snapshot, 'items' | 'objects' | 'leftOut' | 'config'> {
  const items = asApiObjects(raw)
  const read = readPart('the API objects', () =>
    readObjects({ apiVersion: 'v1', kind: 'List', items: raw }),
  )
  const objects = read instanceof Trouble ? read : read.objects
  const leftOut = read instanceof Trouble ? [] : leftOutObjects(read.faults)
  return { items, objects, leftOut, config: kubeProxyConfigOf(items, objects) }
}

/**
 * The cluster at one moment, read once and shared by every step of a round: it judges nothing
 * (evaluate.ts does).
 */
export class Snapshot {
  /** The raw capture, for submissions. */
  readonly capture: Capture
  readonly takenAt: number | undefined
  readonly items: readonly ApiObject[]
  /** The objects for the prediction. */
  readonly objects: ClusterObjects | Trouble
  /** One sentence for each object that can't be read, which is not part of the prediction. */
  readonly leftOut: readonly string[]
  /** kube-proxy's configuration, or why kube-proxy rejects it. */
  readonly config: KubeProxyConfig | ConfigError | Trouble
  readonly nodes: readonly NodeView[]
  /**
   * The nodes whose kube-proxy had changes left to program when they were read, if the cluster
   * tells it.
   */
  readonly unsynced: readonly string[]

  /**
   * What `like` has, too, is not read again: its objects, and nodes with the same files. For
   * changes of single nodes or objects.
   */
  constructor(capture: Capture, like?: Snapshot, unsynced: readonly string[] = []) {
    const same = like?.capture.objects === capture.objects ? like : undefined
    const { items, objects, leftOut, config } = same ?? readClusterObjects(capture.objects.items)
    this.capture = capture
    this.unsynced = unsynced
    this.takenAt = capture.takenAt
    this.items = items
    this.objects = objects
    this.leftOut = leftOut
    this.config = config
    this.nodes = capture.nodes.map((files, index) => {
      const known = like?.capture.nodes[index] === files ? like.nodes[index] : undefined
      return known && same ? known : viewNode(this, files, known)
    })
  }

  /** One object by kind, namespace (empty for none) and name. */
  find(kind: string, namespace: string, name: string): ApiObject | undefined {
    return this.items.find(
      (item) =>
        item.kind === kind &&
        (item.metadata.namespace ?? '') === namespace &&
        item.metadata.name === name,
    )
  }

  /** Throws Trouble for a node that is not in the capture. */
  node(name: string): NodeView {
    return required(
      this.nodes.find((candidate) => candidate.name === name) ??
        new Trouble(`node ${name} was not read`),
    )
  }
}

/** One node of a snapshot. */
export interface NodeView {
  readonly name: string
  readonly snapshot: Snapshot
  /**
   * The texts of the node's capture; a file is missing when its command failed or is not installed.
   */
  readonly files: ReadonlyMap<string, string> | Trouble
  readonly state: NodeState | Trouble
  /** The mode that kube-proxy reports on this node. */
  readonly mode: string | undefined | Trouble
  readonly kubeProxyVersion: string | Trouble
}

/** `like` is a view of the same files beside other objects. */
function viewNode(
  snapshot: Snapshot,
  { name, files, trouble }: NodeFiles,
  like?: NodeView,
): NodeView {
  const kubeProxyVersion = kubeProxyVersionOn(snapshot.items, name)
  if (trouble !== undefined) {
    const unread = new Trouble(trouble)
    return { name, snapshot, files: unread, state: unread, mode: unread, kubeProxyVersion }
  }
  const mode = reportedMode(files.get('proxyMode'), files.get('kube-proxy.log'))
  const state = like?.state ?? readState(name, files)
  return { name, snapshot, files, state, mode, kubeProxyVersion }
}

function readState(name: string, files: ReadonlyMap<string, string>): NodeState | Trouble {
  const whose = `what node ${name} said`
  const read = readPart(whose, () => readCapturedNode(files))
  if (read instanceof Trouble) return read
  const [fault] = read.faults
  if (!fault) return read.state
  const place = fault.line === undefined ? fault.file : `${fault.file} line ${fault.line}`
  return new Trouble(`${whose} can't be read (${place}: ${fault.message.split('\n')[0]})`)
}

// What a check needs of a snapshot. Each throws Trouble when that part could not be read: the step
// could not be checked.

/**
 * Nodes, Services and EndpointSlices as the API had them. Throws Trouble where they could not be
 * read, as the next ones.
 */
export const objectsOf = ({ objects }: Pick<Snapshot, 'objects'>): ClusterObjects =>
  required(objects)
/** What a node holds: rules, sets, virtual servers, interfaces. */
export const stateOf = ({ state }: Pick<NodeView, 'state'>): NodeState => required(state)
/** A node's own IPv4 address; its name where it has none. */
export const nodeAddressOf = (snapshot: Pick<Snapshot, 'objects'>, node: string): string =>
  objectsOf(snapshot)
    .nodes.find(({ name }) => name === node)
    ?.internalIPs.find((ip) => !ip.includes(':')) ?? node

/** The label of a node with the control plane. */
export const CONTROL_PLANE = 'node-role.kubernetes.io/control-plane'
/** The node with the control plane; undefined if no node has its label. */
export function controlPlaneOf(snapshot: Snapshot): NodeView | undefined {
  const name = objectsOf(snapshot).nodes.find(({ labels }) => CONTROL_PLANE in labels)?.name
  return snapshot.nodes.find((node) => node.name === name)
}

/** What each command printed on a node, by the name of its file. */
export const filesOf = ({ files }: Pick<NodeView, 'files'>): ReadonlyMap<string, string> =>
  required(files)
/** The mode that a node's kube-proxy reports; undefined if it does not answer. */
export const modeOf = ({ mode }: Pick<NodeView, 'mode'>): string | undefined => required(mode)
/** The version of a node's kube-proxy: `1.30.3`. */
export const kubeProxyVersionOf = ({
  kubeProxyVersion,
}: Pick<NodeView, 'kubeProxyVersion'>): string => required(kubeProxyVersion)
