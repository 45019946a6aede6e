import { setTimeout as delay } from 'node:timers/promises'
import { OUTSIDE } from '../../host/outside.ts'
import type { NodeBackend, PodTarget, Usage, UsageReport } from '../apiserver/api-call.ts'
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
  netns: string
}

// One process reads all of /proc, because a shell would start hundreds of processes. A tick is 10 ms (USER_HZ), a page 4 KiB.
const listing = `
my %name = map { ((stat "/run/netns/$_")[1] => $_) } map { s,.*/,,r } glob "/run/netns/*";
for my $folder (glob "/proc/[0-9]*") {
  open my $stat, "<", "$folder/stat" or next;
  my @field = split " ", (<$stat> =~ s/^.*\\)//sr);
  open my $memory, "<", "$folder/statm" or next;
  my @pages = split " ", <$memory>;
  my $netns = $name{(stat "$folder/ns/net")[1] // ""} // "";
  print join(" ", $folder =~ s/\\D//gr, $field[1], $field[11] + $field[12], ($pages[1] - $pages[2]) * 4, $netns), "\\n";
}`

async function listTasks(machine: Machine): Promise<GuestTask[]> {
  const { stdout } = await machine.run(['perl', '-e', listing])
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const [pid, parent, ticks, kibibytes, netns = ''] = line.split(' ')
      return { pid: Number(pid), parent: Number(parent), ticks: Number(ticks), kibibytes: Number(kibibytes), netns }
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
 * CPU time and memory of the nodes and their containers, measured over one second. A node's usage includes the processes in
 * its network namespace and in those of its Pods. kube-proxy runs outside the guest and is not included.
 */
async function measureUsage(
  machine: Machine,
  nodes: readonly string[],
  workers: readonly PodWorker[],
): Promise<UsageReport> {
  const before = new Map((await listTasks(machine)).map(({ pid, ticks }) => [pid, ticks]))
  const start = Date.now()
  await delay(windowMs)
  const tasks = await listTasks(machine)
  const seconds = (Date.now() - start) / 1000
  const usageOf = (own: readonly GuestTask[]): Usage => ({
    nanocores: Math.round(
      own.reduce((sum, { pid, ticks }) => sum + ticks - (before.get(pid) ?? 0), 0) * (1e7 / seconds),
    ),
    kibibytes: own.reduce((sum, task) => sum + task.kibibytes, 0),
  })
  const pods = workers.map(({ pod, containers, sandbox: { link } }) => {
    const usage = containers.flatMap(({ container, running }): [string, Usage][] => {
      if (!running) return []
      const root = running.placement?.childOf
      // A program on the host, such as DNS, works through processes in the Pod's network namespace.
      const own =
        root === undefined ? tasks.filter(({ netns }) => netns !== '' && netns === link?.netns) : tree(tasks, root)
      return [[container.name, usageOf(own)]]
    })
    return { uid: pod.metadata.uid, node: pod.spec.nodeName, netns: link?.netns, usage }
  })
  const perNode = nodes.map((node): [string, Usage] => {
    const namespaces = new Set([node, ...pods.flatMap((pod) => (pod.node === node && pod.netns ? [pod.netns] : []))])
    return [node, usageOf(tasks.filter(({ netns }) => namespaces.has(netns)))]
  })
  return { seconds, nodes: new Map(perNode), pods: new Map(pods.map(({ uid, usage }) => [uid, new Map(usage)])) }
}

/** Longer than the timeout of every caller. */
const scriptDeadlineMs = 300_000

function named(worker: PodWorker | undefined, pod: string, container?: string): ContainerWorker {
  if (!worker) throw notFound(resourceNamed('pods'), pod)
  const names = worker.containers.map((one) => one.container.name)
  const chosen = worker.container(container)
  if (!chosen) throw badRequest(`container ${container} is not valid for pod ${pod}`)
  const annotated = worker.pod.metadata.annotations?.['kubectl.kubernetes.io/default-container']
  if (container === undefined && annotated === undefined && names.length > 1)
    throw badRequest(`a container name must be specified for pod ${pod}, choose one of: [${names.join(' ')}]`)
  return chosen
}

const containerNotFound = (name: string) =>
  new StatusError(500, 'InternalError', `unable to upgrade connection: container not found ("${name}")`)

/** Implements the API server's requests to the kubelets: commands, connections and logs. */
export function createBackend(machine: Machine, network: Network, pods: ReadonlyMap<string, PodWorker>): NodeBackend {
  const find = (namespace: string, name: string) =>
    [...pods.values()].find(({ pod: { metadata } }) => metadata.namespace === namespace && metadata.name === name)
  const placementOf = (node: string) => {
    // The guest's own network, from which routes lead to load balancers' addresses.
    if (node === OUTSIDE) return {}
    if (!network.nodes.some(({ name }) => name === node)) throw notFound(resourceNamed('nodes'), node)
    return network.placement(node)
  }
  const insideOf = (target: PodTarget & { container?: string }, command: readonly string[]) => {
    const { running, container } = named(find(target.namespace, target.name), target.name, target.container)
    if (!running) throw containerNotFound(container.name)
    if (running.placement) return running.placement
    const reason = `OCI runtime exec failed: exec failed: ${noProgram(command)}: unknown`
    throw new StatusError(500, 'InternalError', reason)
  }
  return {
    exec({ target, command, tty }) {
      const placement = target.kind === 'node' ? placementOf(target.name) : insideOf(target, command)
      return (size) => machine.spawn(command, placement, { tty, ...(size && { size }) })
    },
    attach({ namespace, name, container }) {
      const process = named(find(namespace, name), name, container).attach()
      if (!process) throw containerNotFound(container)
      return async () => process
    },
    dial({ namespace, name }) {
      const worker = find(namespace, name)
      if (!worker) throw notFound(resourceNamed('pods'), name)
      const { link } = worker.sandbox
      const placement = link ? { netns: link.netns } : network.placement(worker.pod.spec.nodeName ?? '')
      return (port) => machine.spawn(['socat', '-', `TCP4:127.0.0.1:${port}`], placement)
    },
    script: async (node, text) => machine.script(text, placementOf(node), { timeoutMs: scriptDeadlineMs }),
    usage: () =>
      measureUsage(
        machine,
        network.nodes.map(({ name }) => name),
        [...pods.values()],
      ),
    async synced(node) {
      const here = [...pods.values()].filter(({ pod }) => pod.spec.nodeName === node)
      await Promise.all(here.flatMap(({ containers }) => containers.map(({ running }) => running?.synced?.())))
    },
    async logs(request) {
      const { namespace, name } = request
      const worker = named(find(namespace, name), name, request.container)
      const log = request.previous ? worker.previousLog : worker.log
      if (log) return logStream(log, request)
      const own = worker.container.name
      if (request.previous) throw badRequest(`previous terminated container "${own}" in pod "${name}" not found`)
      const reason = worker.status.state?.waiting?.reason ?? 'ContainerCreating'
      throw badRequest(`container "${own}" in pod "${name}" is waiting to start: ${reason}`)
    },
  }
}
