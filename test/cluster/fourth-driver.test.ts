// A new driver is one class that implements Cluster: everything above cluster/ works with it, and
// asks for its capabilities.

import { expect, test, vi } from 'vitest'
import type { Capture } from '../../cluster/capture-folder.ts'
import { ConsentError } from '../../cluster/consent.ts'
import type { Capabilities, Cluster, KubeClient } from '../../cluster/driver.ts'
import { execScript, runOnNode } from '../../cluster/node-script.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { madeClient } from '../grading/made-live-cluster.ts'
import { breakFile, flushedCapture } from '../grading/solved-capture.ts'
import { PLAIN } from './made-cluster.ts'

const none = async (): Promise<never> => {
  throw new Error('a recording is only read')
}

/** The driver of recorded clusters: nodes and API answer what a capture contains. */
class RecordedCluster implements Cluster {
  readonly driver = 'recorded'
  readonly selector = 'recorded'
  readonly name = 'one'
  readonly kubeconfig = '/nonexistent/kubeconfig'
  readonly capabilities: Capabilities
  readonly #capture: Capture
  readonly up = none
  readonly down = none
  readonly shell = none

  constructor(capture: Capture, capabilities: Partial<Capabilities> = {}) {
    this.#capture = capture
    this.capabilities = { ...PLAIN, ...capabilities }
  }

  async client(): Promise<KubeClient> {
    const items = this.#capture.objects.items as { kind: string }[]
    const read = async (path: string) => {
      const resource = path.split('?')[0]?.split('/').at(-1)
      const listed = items.filter(({ kind }) => `${kind.toLowerCase()}s` === resource)
      return { apiVersion: 'v1', kind: `${listed[0]?.kind ?? ''}List`, items: listed }
    }
    const readNamespacedPodLog = async () => ''
    return Object.assign(madeClient({ readNamespacedPodLog }), { read })
  }

  running = async () => true
  unexpectedEnd = () => undefined
  stoppedNodes = async () => []
  synced = async () => []

  async nodes(): Promise<string[]> {
    return this.#capture.nodes.map(({ name }) => name)
  }

  /** Answers the script that reads a node: each section is a file of the capture. */
  async exec(node: string, command: readonly string[]) {
    const files = this.#capture.nodes.find(({ name }) => name === node)?.files
    const script = command.at(-1) ?? ''
    const sections = [...script.matchAll(/^echo '(==\S+) (\S+)'$/gm)].map(([, mark, file = '']) => {
      const text = files?.get(file)
      return `${mark} ${file}\n${text ?? ''}\n${mark}. ${text === undefined ? 127 : 0}\n`
    })
    const end = /^echo '(==\S+! end)'$/m.exec(script)?.[1]
    return { exitCode: 0, stderr: '', stdout: `${sections.join('')}${end}\n` }
  }

  script(node: string, text: string, timeoutMs: number) {
    return execScript(this, node, text, timeoutMs)
  }
}

/** The verdict of `make check-2 STEP=sets` on such a cluster, which is read as any other. */
async function verdictOfSets(capture: Capture): Promise<string | undefined> {
  const { snapshot } = await openCluster(new RecordedCluster(capture), { keepMoments: false })
  const { outcomes } = await judge(await loadSpec(readLab(2)), { snapshot }, { only: ['sets'] })
  return outcomes.find(({ id }) => id === 'sets')?.verdict
}

test('a step is graded on it', async () => {
  const capture = flushedCapture()
  expect(await verdictOfSets(capture)).toBe('passed')
  const [node] = capture.nodes
  const broken = breakFile(capture, node?.name ?? '', 'ipset-save', (text) =>
    text.replace(/^add KUBE-CLUSTER-IP .*\n/m, ''),
  )
  expect(await verdictOfSets(broken)).toBe('failed')
})

test('it says whether its changes need consent, whatever its name', async () => {
  vi.stubEnv('YES', '')
  const change = (capabilities: Partial<Capabilities>) =>
    runOnNode(new RecordedCluster(flushedCapture(), capabilities), 'k8s-guide-worker', 'true')
  await expect(change({ ownedByUser: true })).rejects.toThrow(ConsentError)
  await expect(change({})).resolves.toMatchObject({ exitCode: 0 })
  vi.unstubAllEnvs()
})
