import { CoreV1Api, createConfiguration, wrapHttpLibrary } from '@kubernetes/client-node'
import type { Capabilities, Cluster, KubeClient } from '../../cluster/driver.ts'
import { LiveCluster } from '../../grading/live-cluster.ts'
import { LIKE_EMBEDDED, madeCluster } from '../cluster/made-cluster.ts'

/**
 * What a cluster that exists only in a test answers; it has no machine and no API server for
 * anything else.
 */
export interface MadeAnswers {
  /** What a script prints on every node. */
  node?: () => string
  /** What a script prints in every Pod. */
  pod?: () => string
  /** The log of every Pod. */
  log?: () => string
  stopped?: readonly string[]
  /** Default: those of the embedded cluster. */
  capabilities?: Capabilities
  /** In place of methods of the API. */
  core?: Partial<CoreV1Api>
  quiet?: boolean
}

const missing = async (): Promise<never> => {
  throw new Error('a made cluster has none')
}

/** An API of which only these methods answer. */
export const madeClient = (core: Partial<CoreV1Api> = {}): KubeClient => ({
  get config(): never {
    throw new Error('a made cluster has no kubeconfig')
  },
  get apps(): never {
    throw new Error('a made cluster has no apps')
  },
  read: missing,
  core: Object.assign(
    new CoreV1Api(createConfiguration({ httpApi: wrapHttpLibrary({ send: missing }) })),
    core,
  ),
  mergePatch: {},
  strategicPatch: {},
})

const printed = (stdout: string) => ({ stdout, stderr: '', exitCode: 0 })

const clusterOf = ({ node, stopped = [], capabilities = LIKE_EMBEDDED }: MadeAnswers): Cluster =>
  madeCluster({
    capabilities,
    kubeconfig: '',
    stoppedNodes: async () => [...stopped],
    exec: async () => (node ? printed(node()) : missing()),
  })

class MadeLiveCluster extends LiveCluster {
  readonly #answers: MadeAnswers

  constructor(answers: MadeAnswers) {
    super(clusterOf(answers), madeClient(answers.core), {
      keepMoments: false,
      quiet: answers.quiet,
    })
    this.#answers = answers
  }

  override async inPod(...call: Parameters<LiveCluster['inPod']>) {
    const { pod } = this.#answers
    return pod ? printed(pod()) : super.inPod(...call)
  }

  override async log(...call: Parameters<LiveCluster['log']>) {
    return this.#answers.log?.() ?? super.log(...call)
  }
}

/** A running cluster for checks, without a machine. */
export const madeLiveCluster = (answers: MadeAnswers = {}): LiveCluster =>
  new MadeLiveCluster(answers)
