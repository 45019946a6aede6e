import type { Capture, NodeFiles } from '../cluster/capture-folder.ts'
import { type CaptureParsers, readCapturedNode, rememberingParsers } from '../dataplane/capture.ts'
import { compareNodeState, type Finding } from '../dataplane/compare.ts'
import { parseConntrack } from '../dataplane/conntrack.ts'
import { ConfigError, type KubeProxyConfig, type KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { type ClusterObjects, ObjectsError, type ReadBefore, readObjects } from '../dataplane/objects.ts'
import { ParseError } from '../dataplane/parse-error.ts'
import { type ApiObject, asApiObjects } from './api-object.ts'
import { fail, Trouble } from './failure.ts'
import { kubeProxyConfigOf, kubeProxyVersionOn, modeInForce } from './kube-proxy-in-force.ts'
import { predictOn } from './prediction.ts'

/** What captures of one cluster share is the very same object, which nobody changes. */
const readBefore: ReadBefore = new WeakMap()

/** The cluster at one moment, read once and shared by every step of a round. All views are worked out when first asked. */
export class Snapshot {
  /** As it was read: what a submission keeps. */
  readonly capture: Capture
  readonly takenAt: number | undefined
  readonly items: readonly ApiObject[]
  readonly nodes: readonly NodeView[]
  /** Read texts are shared with the snapshot that this one is like. */
  readonly parsers: CaptureParsers
  readonly #rawItems: unknown[]
  #objects: ClusterObjects | undefined
  #config: KubeProxyConfig | undefined

  /** What a capture shares with that of another snapshot, the very objects, files and texts, is taken from there as worked out. */
  constructor(capture: Capture, like?: Snapshot) {
    const same = like?.capture.objects === capture.objects ? like : undefined
    this.capture = capture
    this.takenAt = capture.takenAt
    this.parsers = like?.parsers ?? rememberingParsers()
    this.#rawItems = capture.objects.items
    this.items = same?.items ?? asApiObjects(capture.objects.items)
    this.#objects = same ? same.#objects : undefined
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

  /** The objects as the prediction takes them. Throws Trouble naming the first fault when they can't be read. */
  get objects(): ClusterObjects {
    try {
      this.#objects ??= readObjects({ apiVersion: 'v1', kind: 'List', items: this.#rawItems }, readBefore).objects
    } catch (error) {
      if (!(error instanceof ObjectsError)) throw error
      throw new Trouble(`the API objects can't be read (${error.message.split('\n')[0]})`)
    }
    return this.#objects
  }

  /** kube-proxy's configuration. One that kube-proxy would refuse is the learner's to mend, so this fails the step. */
  get config(): KubeProxyConfig {
    try {
      this.#config ??= kubeProxyConfigOf(this)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      fail({
        look: 'kubectl -n kube-system get configmap kube-proxy -o yaml',
        expected: 'a config.conf that kube-proxy accepts',
        actual: error.message,
        why: 'kube-proxy ends at once when it cannot read its configuration, and the rules of before stay as they were.',
        hint: 'Mend the field that is named, then make ipvs restarts the agents.',
      })
    }
    return this.#config
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
  readonly #snapshot: Snapshot
  readonly #files: NodeFiles
  readonly #expected = new Map<KubeProxyMode, NodeState>()
  readonly #differences = new Map<KubeProxyMode, Finding[]>()
  #state: NodeState | undefined
  #version: string | undefined

  constructor(snapshot: Snapshot, files: NodeFiles) {
    this.name = files.name
    this.#snapshot = snapshot
    this.#files = files
  }

  /** The text that the node gave for one file of a capture; undefined when the command failed or is not installed. */
  text(file: string): string | undefined {
    this.#requireAnswer()
    return this.#files.files.get(file)
  }

  /** What the node holds. Throws Trouble when it did not answer or said something that can't be read. */
  get state(): NodeState {
    this.#requireAnswer()
    if (this.#state) return this.#state
    const { state, faults } = readCapturedNode(this.#files.files, { parsers: this.#snapshot.parsers })
    const fault = faults[0]
    if (fault) {
      const place = fault.line === undefined ? fault.file : `${fault.file} line ${fault.line}`
      throw new Trouble(`what node ${this.name} said can't be read (${place}: ${fault.message.split('\n')[0]})`)
    }
    this.#state = state
    return state
  }

  /** Tracked connections, where they were read. */
  get connections() {
    try {
      return parseConntrack(this.text('conntrack') ?? '')
    } catch (error) {
      if (!(error instanceof ParseError)) throw error
      throw new Trouble(`what node ${this.name} said can't be read (conntrack line ${error.line})`)
    }
  }

  /** The mode that kube-proxy runs in on this node, by its own word. */
  get mode(): string | undefined {
    return modeInForce(this.text('proxyMode'), this.text('kube-proxy.log'))
  }

  get kubeProxyVersion(): string {
    this.#version ??= kubeProxyVersionOn(this.#snapshot, this.name)
    return this.#version
  }

  /** What kube-proxy programs here in that mode, from the live objects, configuration and version. */
  expected(mode: KubeProxyMode): NodeState {
    let state = this.#expected.get(mode)
    if (!state) {
      state = predictOn(this.#snapshot, this, mode)
      this.#expected.set(mode, state)
    }
    return state
  }

  /** Where that and what the node holds differ, both ways; every step of a round asks for its own part. */
  differences(mode: KubeProxyMode): readonly Finding[] {
    let findings = this.#differences.get(mode)
    if (!findings) {
      findings = compareNodeState(this.expected(mode), this.state, { mode })
      this.#differences.set(mode, findings)
    }
    return findings
  }

  #requireAnswer(): void {
    if (this.#files.trouble) throw new Trouble(this.#files.trouble)
  }
}
