import type { Capture, NodeFiles } from '../cluster/capture-folder.ts'
import { isKubeProxyPod, kubeProxy, kubeProxyPods } from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { type CaptureParsers, readCapturedNode, rememberingParsers } from '../dataplane/capture.ts'
import { type Connection, parseConntrack } from '../dataplane/conntrack.ts'
import { likelyClusterCIDR } from '../dataplane/kube-proxy/cluster-config.ts'
import {
  ConfigError,
  defaultConfig,
  type KubeProxyConfig,
  parseKubeProxyConfiguration,
} from '../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import {
  type ClusterObjects,
  leftOutObjects,
  ObjectsError,
  type ReadBefore,
  readObjects,
} from '../dataplane/objects.ts'
import { ParseError } from '../dataplane/parse-error.ts'
import { type ApiObject, asApiObjects } from './api-object.ts'
import { Trouble } from './failure.ts'

const KUBE_PROXY = /^(?:Using|Using the) (\w+) Proxier/i

/**
 * The mode of a running kube-proxy: its /proxyMode, else the last line of its log that names a proxier (`Using ipvs Proxier`,
 * all versions). Undefined if there is neither.
 */
export function reportedMode(proxyMode: string | undefined, log: string | undefined): string | undefined {
  const said = proxyMode?.trim()
  if (said) return said
  const modes = (log ?? '').split('\n').flatMap((line) => {
    const message = line.slice(line.indexOf('] ') + 2).replace(/^"/, '')
    return KUBE_PROXY.exec(message)?.[1] ?? []
  })
  return modes.at(-1)?.toLowerCase()
}

/**
 * kube-proxy's version on a node: the image tag of its Pod in service, else that of a terminating or ended one (it wrote the
 * node's rules), else the version in the Node object. Throws Trouble if there is none.
 */
export function kubeProxyVersionOn(items: readonly ApiObject[], node: string): string {
  const pods = [...kubeProxyPods(items), ...items.filter(isKubeProxyPod)]
  const pod = pods.find((candidate) => candidate.spec?.nodeName === node)
  for (const { image } of pod?.spec?.containers ?? []) {
    const tag = /:(v\d+\.\d+[^@:]*)/.exec(image ?? '')?.[1]
    if (tag) return tag
  }
  const { kubeProxyVersion, kubeletVersion } =
    items.find(({ kind, metadata }) => kind === 'Node' && metadata.name === node)?.status?.nodeInfo ?? {}
  const version = kubeProxyVersion || kubeletVersion
  if (!version) throw new Trouble(`the version of kube-proxy on ${node} is not known`)
  return version
}

/**
 * The configuration of kube-proxy's ConfigMap. Without it, kube-proxy's defaults are used with the controller manager's Pod
 * range, else with one derived from the nodes. Throws ConfigError when kube-proxy would reject it.
 */
function kubeProxyConfigOf(items: readonly ApiObject[], objects: () => ClusterObjects): KubeProxyConfig {
  const map = items.find(
    ({ kind, metadata }) =>
      kind === 'ConfigMap' && metadata.namespace === kubeProxy.namespace && metadata.name === kubeProxy.name,
  )
  const text = map?.data?.['config.conf']
  if (text !== undefined) return parsedOnce(text)
  const { features, clusterCIDR } = controllerManagerFlags(items)
  return {
    ...defaultConfig(),
    clusterCIDR: clusterCIDR || likelyClusterCIDR(objects()),
    dualStack: /\bIPv6DualStack=true\b/.test(features),
  }
}

const parsed = new Map<string, KubeProxyConfig>()
const PARSED_KEPT = 16

/** Parsing YAML is the slowest part of reading a capture, and nearly all captures of a lab have the same text. */
function parsedOnce(text: string): KubeProxyConfig {
  const found = parsed.get(text)
  if (found) return found
  const config = parseKubeProxyConfiguration(text)
  if (parsed.size >= PARSED_KEPT) parsed.clear()
  parsed.set(text, config)
  return config
}

function controllerManagerFlags(items: readonly ApiObject[]): { features: string; clusterCIDR: string } {
  const pod = items.find(
    ({ kind, metadata }) => kind === 'Pod' && metadata.labels?.component === 'kube-controller-manager',
  )
  const words = (pod?.spec?.containers ?? []).flatMap(({ command, args }) => [...(command ?? []), ...(args ?? [])])
  const flag = (name: string) => words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3) ?? ''
  return { features: flag('feature-gates'), clusterCIDR: flag('cluster-cidr') }
}

/** Captures of one cluster share identical, immutable objects. */
const readBefore: ReadBefore = new WeakMap()

/** A part of a capture that is parsed on first use. If it can't be parsed, every access throws the same Trouble. */
function whenNeeded<Value>(whose: string, read: () => Value): () => Value {
  let part: { value: Value } | undefined
  return () => {
    try {
      part ??= { value: read() }
      return part.value
    } catch (error) {
      if (error instanceof ObjectsError) throw new Trouble(`${whose} can't be read (${error.message.split('\n')[0]})`)
      if (error instanceof ParseError) throw new Trouble(`${whose} can't be read (conntrack line ${error.line})`)
      throw error
    }
  }
}

/**
 * The cluster at one moment, read once and shared by every step of a round: it judges nothing (evaluate.ts does). Each part
 * is parsed on first use, and throws Trouble if it can't be read.
 */
export class Snapshot {
  /** The raw capture, for submissions. */
  readonly capture: Capture
  readonly takenAt: number | undefined
  readonly items: readonly ApiObject[]
  readonly nodes: readonly NodeView[]
  /** Parsed texts are shared with the `like` snapshot. */
  readonly parsers: CaptureParsers
  readonly #objects: () => { objects: ClusterObjects; leftOut: readonly string[] }
  readonly #config: () => KubeProxyConfig | ConfigError

  /** Results for objects, files and texts that the capture shares with the `like` snapshot are reused. */
  constructor(capture: Capture, like?: Snapshot) {
    const same = like?.capture.objects === capture.objects ? like : undefined
    const { items } = capture.objects
    this.capture = capture
    this.takenAt = capture.takenAt
    this.parsers = like?.parsers ?? rememberingParsers()
    this.items = same?.items ?? asApiObjects(items)
    this.#objects = same
      ? same.#objects
      : whenNeeded('the API objects', () => {
          const { objects, faults } = readObjects({ apiVersion: 'v1', kind: 'List', items }, readBefore)
          return { objects, leftOut: leftOutObjects(faults) }
        })
    this.#config = same
      ? same.#config
      : whenNeeded('the configuration of kube-proxy', () => {
          try {
            return kubeProxyConfigOf(this.items, () => this.objects)
          } catch (error) {
            if (error instanceof ConfigError) return error
            throw error
          }
        })
    this.nodes = capture.nodes.map(
      (files, index) => (same?.capture.nodes[index] === files && same.nodes[index]) || new NodeView(this, files),
    )
  }

  /** One object by kind, namespace (empty for none) and name. */
  find(kind: string, namespace: string, name: string): ApiObject | undefined {
    return this.items.find(
      (item) => item.kind === kind && (item.metadata.namespace ?? '') === namespace && item.metadata.name === name,
    )
  }

  /** The objects for the prediction. Throws Trouble if there is no list of objects. */
  get objects(): ClusterObjects {
    return this.#objects().objects
  }

  /** One sentence for each object that can't be read and is omitted from the prediction. Throws like `objects`. */
  get leftOut(): readonly string[] {
    return this.#objects().leftOut
  }

  /** kube-proxy's configuration, or why kube-proxy rejects it. */
  get config(): KubeProxyConfig | ConfigError {
    return this.#config()
  }

  node(name: string): NodeView {
    const node = this.nodes.find((candidate) => candidate.name === name)
    if (!node) throw new Trouble(`node ${name} was not read`)
    return node
  }
}

/** One node of a snapshot. */
export class NodeView {
  readonly name: string
  readonly snapshot: Snapshot
  readonly #files: () => ReadonlyMap<string, string>
  readonly #state: () => NodeState
  readonly #connections: () => Connection[]
  readonly #version: () => string

  constructor(snapshot: Snapshot, { name, files, trouble }: NodeFiles) {
    this.name = name
    this.snapshot = snapshot
    this.#files = () => {
      if (trouble) throw new Trouble(trouble)
      return files
    }
    const whose = `what node ${name} said`
    this.#state = whenNeeded(whose, () => {
      const { state, faults } = readCapturedNode(this.#files(), { parsers: snapshot.parsers })
      const [fault] = faults
      if (!fault) return state
      const place = fault.line === undefined ? fault.file : `${fault.file} line ${fault.line}`
      throw new Trouble(`${whose} can't be read (${place}: ${fault.message.split('\n')[0]})`)
    })
    this.#connections = whenNeeded(whose, () => parseConntrack(this.text('conntrack') ?? ''))
    this.#version = whenNeeded(whose, () => kubeProxyVersionOn(snapshot.items, name))
  }

  /** The text of one file of the node's capture; undefined when the command failed or is not installed. */
  text(file: string): string | undefined {
    return this.#files().get(file)
  }

  /** The node's state. Throws Trouble when it did not respond or its output can't be parsed. */
  get state(): NodeState {
    return this.#state()
  }

  /** Tracked connections, where they were read. */
  get connections(): Connection[] {
    return this.#connections()
  }

  /** The mode that kube-proxy reports on this node. */
  get mode(): string | undefined {
    return reportedMode(this.text('proxyMode'), this.text('kube-proxy.log'))
  }

  get kubeProxyVersion(): string {
    return this.#version()
  }
}
