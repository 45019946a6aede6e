import { setTimeout as delay } from 'node:timers/promises'
import type { Usage, UsageReport } from '../apiserver/node-backend.ts'
import type { Machine } from '../machine/machine.ts'
import type { PodWorker } from './pod-worker.ts'

/** A process of the guest: CPU time in clock ticks since its start, and the memory that only it uses. */
interface GuestTask {
  pid: number
  parent: number
  ticks: number
  kibibytes: number
  netns: string
}

// One process reads all of /proc: in this kernel a shell would start hundreds. Ticks are of 10 ms (USER_HZ), pages of 4 KiB.
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
 * CPU time and memory of the nodes and their containers, measured over one second. A node's are those of the processes in its
 * network namespace and in those of its Pods; kube-proxy's own work is done outside the guest and is not included.
 */
export async function measureUsage(
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
