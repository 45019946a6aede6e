import { setTimeout as delay } from 'node:timers/promises'
import type { NodePlan } from '../../host/layout.ts'
import { OUTSIDE } from '../../host/outside.ts'
import type { ContainerTarget, NodeBackend, Usage, UsageReport } from '../apiserver/api-call.ts'
import { resourceNamed } from '../apiserver/resource.ts'
import { badRequest, notFound, StatusError } from '../apiserver/status-error.ts'
import type { Machine } from '../machine/machine.ts'
import type { Network } from '../network/topology.ts'
import { notFound as noProgram } from './container-process.ts'
import type { ContainerWorker } from './container-worker.ts'
import { logStream } from './log-buffer.ts'
import type { PodWorker } from './pod-worker.ts'

/** A process of the guest: CPU time in clock ticks since its start, and its private memory. */
interface GuestTask {
  pid: number
  parent: number
  ticks: number
  kibibytes: number
}

// One process reads all of /proc, because a shell would start hundreds of processes. A tick is 10 ms (USER_HZ), a page 4 KiB.
const listing = `
for my $folder (glob "/proc/[0-9]*") {
  open my $stat, "<", "$folder/stat" or next;
  my @field = split " ", (<$stat> =~ s/^.*\\)//sr);
  open my $memory, "<", "$folder/statm" or next;
  my @pages = split " ", <$memory>;
  print join(" ", $folder =~ s/\\D//gr, $field[1], $field[11] + $field[12], ($pages[1] - $pages[2]) * 4), "\\n";
}`

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
 * CPU time and memory of the containers, and of the nodes as their sums, measured over one second. Programs on the host, kube-proxy
 * and DNS, are not included.
 */
async function measureUsage(
  machine: Machine,
  nodes: readonly NodePlan[],
  pods: readonly PodWorker[],
): Promise<UsageReport> {
  const before = new Map((await listTasks(machine)).map(({ pid, ticks }) => [pid, ticks]))
  const start = Date.now()
  await delay(windowMs)
  const tasks = await listTasks(machine)
  const seconds = (Date.now() - start) / 1000
  const perNode = new Map<string, Usage>(nodes.map(({ name }) => [name, { nanocores: 0, kibibytes: 0 }]))
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

/** Longer than the timeout of every caller. */
const scriptDeadlineMs = 300_000

const containerNotFound = (name: string) =>
  new StatusError('InternalError', `unable to upgrade connection: container not found ("${name}")`)

/** Implements the API server's requests to the kubelets: commands, connections and logs. */
export function createBackend(machine: Machine, network: Network, pods: ReadonlyMap<string, PodWorker>): NodeBackend {
  const podNamed = (namespace: string, name: string): PodWorker => {
    const isNamed = ({ pod: { metadata } }: PodWorker) => metadata.namespace === namespace && metadata.name === name
    const worker = [...pods.values()].find(isNamed)
    if (!worker) throw notFound(resourceNamed('pods'), name)
    return worker
  }
  const containerIn = ({ namespace, name, container }: ContainerTarget): ContainerWorker => {
    const worker = podNamed(namespace, name).container(container)
    if (!worker) throw badRequest(`container ${container} is not valid for pod ${name}`)
    return worker
  }
  const placementOf = (node: string) => {
    // The guest's own network, from which routes lead to load balancers' addresses.
    if (node === OUTSIDE) return {}
    if (!network.nodes.some(({ name }) => name === node)) throw notFound(resourceNamed('nodes'), node)
    return network.placement(node)
  }
  const insideOf = (target: ContainerTarget, command: readonly string[]) => {
    const { running } = containerIn(target)
    if (!running) throw containerNotFound(target.container)
    if (running.placement) return running.placement
    const reason = `OCI runtime exec failed: exec failed: ${noProgram(command)}: unknown`
    throw new StatusError('InternalError', reason)
  }
  return {
    exec({ target, command, tty }) {
      const placement = target.kind === 'node' ? placementOf(target.name) : insideOf(target, command)
      return (size) => machine.spawn(command, placement, { tty, ...(size && { size }) })
    },
    attach(target) {
      const process = containerIn(target).attach()
      if (!process) throw containerNotFound(target.container)
      return async () => process
    },
    dial({ namespace, name }) {
      const { link, node } = podNamed(namespace, name).sandbox
      const placement = link ? { netns: link.netns } : network.placement(node)
      return (port) => machine.spawn(['socat', '-', `TCP4:127.0.0.1:${port}`], placement)
    },
    script: async (node, text) => machine.script(text, placementOf(node), { timeoutMs: scriptDeadlineMs }),
    usage: () => measureUsage(machine, network.nodes, [...pods.values()]),
    async synced(node) {
      const here = [...pods.values()].filter(({ sandbox }) => sandbox.node === node)
      await Promise.all(here.flatMap(({ containers }) => containers.map(({ running }) => running?.synced?.())))
    },
    async logs(request) {
      const { name, container, previous } = request
      const worker = containerIn(request)
      const log = previous ? worker.previousLog : worker.log
      if (log) return logStream(log, request)
      if (previous) throw badRequest(`previous terminated container "${container}" in pod "${name}" not found`)
      const reason = worker.status.state?.waiting?.reason ?? 'ContainerCreating'
      throw badRequest(`container "${container}" in pod "${name}" is waiting to start: ${reason}`)
    },
  }
}
