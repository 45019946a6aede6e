import { setTimeout as delay } from 'node:timers/promises'
import type { NodePlan } from '../../host/layout.ts'
import { programText } from '../../host/program-text.ts'
import type { Usage, UsageReport } from '../apiserver/api-call.ts'
import type { Machine } from '../machine/machine.ts'
import type { PodWorker } from './pod-worker.ts'

/** A process of the guest: CPU time in clock ticks since its start, and its private memory. */
interface GuestTask {
  pid: number
  parent: number
  ticks: number
  kibibytes: number
}

// One process reads all of /proc, because a shell would start hundreds of processes. A tick is 10
// ms (USER_HZ), a page 4 KiB.
const listing = programText('embedded/kubelet/list-tasks.pl')

async function listTasks(machine: Machine): Promise<GuestTask[]> {
  const { stdout } = await machine.run(['perl', '-e', listing])
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const [pid = 0, parent = 0, ticks = 0, kibibytes = 0] = line.split(' ').map(Number)
      return { pid, parent, ticks, kibibytes }
    })
}

/** A process and all its descendants. */
function tree(tasks: readonly GuestTask[], root: number): GuestTask[] {
  const own = tasks.filter(({ pid }) => pid === root)
  for (const { pid } of own) own.push(...tasks.filter(({ parent }) => parent === pid))
  return own
}

const windowMs = 1000

/**
 * CPU time and memory of the containers, and of the nodes as their sums, measured over one second.
 * Programs on the host, kube-proxy and DNS, are not included.
 */
export async function measureUsage(
  machine: Machine,
  nodes: readonly NodePlan[],
  pods: readonly PodWorker[],
): Promise<UsageReport> {
  const before = new Map((await listTasks(machine)).map(({ pid, ticks }) => [pid, ticks]))
  const start = Date.now()
  await delay(windowMs)
  const tasks = await listTasks(machine)
  const seconds = (Date.now() - start) / 1000
  const perNode = new Map<string, Usage>(
    nodes.map(({ name }) => [name, { nanocores: 0, kibibytes: 0 }]),
  )
  const perPod = new Map<string, Map<string, Usage>>()
  for (const { pod, containers, sandbox } of pods) {
    const usages = new Map<string, Usage>()
    for (const { container, running } of containers) {
      const root = running?.placement?.childOf
      if (root === undefined) continue
      const own = tree(tasks, root)
      const ticks = own.reduce((sum, task) => sum + task.ticks - (before.get(task.pid) ?? 0), 0)
      const usage = {
        nanocores: Math.round(ticks * (1e7 / seconds)),
        kibibytes: own.reduce((sum, task) => sum + task.kibibytes, 0),
      }
      usages.set(container.name, usage)
      const node = perNode.get(sandbox.node)
      if (!node) continue
      node.nanocores += usage.nanocores
      node.kibibytes += usage.kibibytes
    }
    if (usages.size > 0) perPod.set(pod.metadata.uid, usages)
  }
  return { seconds, nodes: perNode, pods: perPod }
}
