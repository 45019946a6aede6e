import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cluster, NodeAccess } from '../../../cluster/driver.ts'
import { nodeReportRequest } from '../../../cluster/node-report.ts'
import { readCapturedNode } from '../../../dataplane/capture.ts'
import { compareNodeState } from '../../../dataplane/compare.ts'
import {
  type KubeProxyMode,
  parseKubeProxyConfiguration,
} from '../../../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { readObjects } from '../../../dataplane/objects.ts'
import { predict } from '../../../dataplane/predict.ts'
import { cacheFolder } from '../../../host/layout.ts'
import { silent } from '../../../host/progress.ts'
import { waitFor } from '../../../host/wait.ts'
import { LIKE_EMBEDDED } from '../../../test/cluster/made-cluster.ts'
import { addons } from '../../addons.ts'
import { createClusterApi } from '../../apiserver/api.ts'
import type { DaemonSet, Pod } from '../../controllers/resources.ts'
import { KubeProxy } from '../../kube-proxy/kube-proxy.ts'
import { startMachine } from '../../machine/guest-machine.ts'
import type { Machine } from '../../machine/machine.ts'
import { ensurePackages } from '../../machine/packages.ts'

const names = ['k8s-guide-control-plane', 'k8s-guide-worker', 'k8s-guide-worker2'] as const
export const [controlPlane, worker, worker2] = names
export type NodeName = (typeof names)[number]
/** A Pod of the Service `web` on each worker. */
export const webPods = { [worker]: '10.244.1.5', [worker2]: '10.244.2.5' }
export const webIP = '10.96.100.100'

/** One of kubeadm's add-ons. */
function addon(kind: string) {
  const found = addons({ server: 'https://k8s-guide-control-plane:6443', version: 'v1.34.0' }).find(
    (one) => one.kind === kind,
  )
  if (!found) throw new Error(`there is no add-on of kind ${kind}`)
  return found
}

/** One kube-proxy with what it has written. */
export interface Running {
  container: KubeProxy
  log: string[]
}

/**
 * A real kernel with three nodes as network namespaces on one bridge, two web servers in Pods, and
 * an API in memory.
 */
export class ThreeNodes {
  readonly api = createClusterApi()
  readonly machine: Machine
  readonly #folder: string
  readonly #proxies = new Map<NodeName, Running>()
  #pods = 0

  private constructor(machine: Machine, folder: string) {
    this.machine = machine
    this.#folder = folder
  }

  static async start(): Promise<ThreeNodes> {
    const packages = await ensurePackages(cacheFolder, silent)
    const folder = mkdtempSync(join(tmpdir(), 'kube-proxy-test-'))
    const name = `kube-proxy-test-${process.pid}`
    const nodes = new ThreeNodes(
      await startMachine({ packages, directory: folder, name, memoryMegabytes: 512 }),
      folder,
    )
    await nodes.#connect()
    nodes.#fillApi()
    return nodes
  }

  async stop(): Promise<void> {
    await this.machine.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #connect(): Promise<void> {
    const lines = [
      'set -e',
      'modprobe -a bridge veth dummy iptable_nat iptable_filter iptable_mangle xt_comment xt_addrtype',
      'ip link add br0 type bridge',
      'ip addr add 172.18.0.1/16 dev br0',
      'ip link set br0 up',
      'ip link set lo up',
    ]
    names.forEach((name, index) => {
      lines.push(
        `ip netns add ${name}`,
        `ip link add n${index} type veth peer name eth0 netns ${name}`,
        `ip link set n${index} master br0 up`,
        `ip -n ${name} link set lo up`,
        `ip -n ${name} addr add 172.18.0.${index + 2}/16 dev eth0`,
        `ip -n ${name} link set eth0 up`,
        `ip -n ${name} route add default via 172.18.0.1`,
        `ip netns exec ${name} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'`,
      )
      for (const other of [0, 1, 2])
        if (other !== index)
          lines.push(`ip -n ${name} route add 10.244.${other}.0/24 via 172.18.0.${other + 2}`)
    })
    for (const [node, index] of [
      [worker, 1],
      [worker2, 2],
    ] as const)
      lines.push(
        ...this.#podLines(node, `web${index}`, index, 5),
        ...this.#podLines(node, `client${index}`, index, 9),
      )
    const { exitCode, stderr } = await this.machine.script(lines.join('\n'))
    if (exitCode !== 0) throw new Error(`the nodes could not be made: ${stderr}`)
    for (const index of [1, 2]) await this.#serve(`web${index}`, index)
  }

  #podLines(node: string, pod: string, index: number, host: number): string[] {
    return [
      `ip netns add ${pod}`,
      `ip -n ${node} link add v-${pod} type veth peer name eth0 netns ${pod}`,
      `ip -n ${node} link set v-${pod} up`,
      `ip -n ${node} addr add 10.244.${index}.1/32 dev v-${pod}`,
      `ip -n ${node} route add 10.244.${index}.${host} dev v-${pod}`,
      `ip -n ${pod} link set lo up`,
      `ip -n ${pod} addr add 10.244.${index}.${host}/32 dev eth0`,
      `ip -n ${pod} link set eth0 up`,
      `ip -n ${pod} route add 10.244.${index}.1 dev eth0`,
      `ip -n ${pod} route add default via 10.244.${index}.1`,
    ]
  }

  async #serve(pod: string, index: number): Promise<void> {
    const folder = `/run/${pod}`
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (kind) => `${kind}_temp_path ${folder}/${kind};`,
    )
    const content = `daemon off; master_process off; pid ${folder}/pid; error_log /dev/null; events {} http { access_log off; ${temporary.join(' ')}
      server { listen 80; default_type text/plain; location / { return 200 "web${index} $remote_addr\\n"; } } }`
    await this.machine.write([{ path: `${folder}/nginx.conf`, content }])
    const server = await this.machine.spawn(
      ['nginx', '-p', folder, '-e', '/dev/null', '-c', `${folder}/nginx.conf`],
      {
        netns: pod,
      },
    )
    server.stdout.resume()
    server.stderr.resume()
  }

  #fillApi(): void {
    names.forEach((name, index) => {
      this.api.create('nodes', undefined, {
        metadata: { name, labels: { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' } },
        spec: { podCIDR: `10.244.${index}.0/24`, podCIDRs: [`10.244.${index}.0/24`] },
      })
      const addresses = [{ type: 'InternalIP', address: `172.18.0.${index + 2}` }]
      this.api.patch('nodes', undefined, name, { status: { addresses } }, 'status')
    })
    this.api.create('configmaps', 'kube-system', addon('ConfigMap'))
    this.api.create('daemonsets', 'kube-system', addon('DaemonSet'))
    this.addService('web', webIP)
    this.setEndpoints('web', [worker, worker2])
  }

  addService(name: string, clusterIP: string, spec: Record<string, unknown> = {}): void {
    this.api.create('services', 'default', {
      metadata: { name },
      spec: { clusterIP, ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }], ...spec },
    })
  }

  /** Makes the web Pods of these nodes the endpoints of a Service. */
  setEndpoints(service: string, nodes: readonly (keyof typeof webPods)[]): void {
    const endpoints = nodes.map((node) => ({
      addresses: [webPods[node]],
      nodeName: node,
      conditions: { ready: true, serving: true, terminating: false },
    }))
    const name = `${service}-abcde`
    if (this.api.get('endpointslices', 'default', name)) {
      this.api.patch('endpointslices', 'default', name, { endpoints })
      return
    }
    this.api.create('endpointslices', 'default', {
      metadata: { name, labels: { 'kubernetes.io/service-name': service } },
      addressType: 'IPv4',
      ports: [{ name: '', port: 80, protocol: 'TCP' }],
      endpoints,
    })
  }

  get #config(): string {
    const map = this.api.get('configmaps', 'kube-system', 'kube-proxy') as
      | { data?: Record<string, string> }
      | undefined
    return map?.data?.['config.conf'] ?? ''
  }

  /** Edits kube-proxy's config.conf; a running kube-proxy takes no notice. */
  configure(edit: (text: string) => string): void {
    this.api.patch('configmaps', 'kube-system', 'kube-proxy', {
      data: { 'config.conf': edit(this.#config) },
    })
  }

  startProxy(node: NodeName, version = 'v1.34.0'): Running {
    const log: string[] = []
    const { machine, api } = this
    const { template } = api.list<DaemonSet>('daemonsets')[0]?.spec ?? {}
    const metadata = { name: `kube-proxy-${++this.#pods}` }
    const pod = api.create<Pod>('pods', 'kube-system', {
      metadata,
      spec: { ...template?.spec, nodeName: node },
    })
    const container = new KubeProxy(
      {
        pod,
        node,
        machine,
        api,
        placement: { netns: node },
        log: (line) => log.push(line),
      },
      version,
    )
    const running = { container, log }
    this.#proxies.set(node, running)
    return running
  }

  /** Replaces every kube-proxy, as a restart of the DaemonSet does. */
  async restartProxies(): Promise<Running[]> {
    await this.stopProxies()
    return names.map((node) => this.startProxy(node))
  }

  async stopProxies(): Promise<void> {
    await Promise.all([...this.#proxies.values()].map(({ container }) => container.stop()))
    this.#proxies.clear()
  }

  /** Runs a shell command in a node's or Pod's network namespace and gives its standard output. */
  async sh(netns: string, command: string): Promise<string> {
    const { stdout } = await this.machine.script(command, { netns })
    return stdout
  }

  async state(node: NodeName): Promise<NodeState> {
    return waitFor(`${node} to be read`, 10_000, async () => {
      const { script, read } = nodeReportRequest('essential')
      const { stdout } = await this.machine.script(script, { netns: node })
      const { state, faults } = readCapturedNode(read(stdout).files)
      return faults.length === 0 && state
    })
  }

  /** What is predicted for a node that has these addresses. */
  expected(state: NodeState, node: NodeName, mode: KubeProxyMode, version = 'v1.34.0'): NodeState {
    const items = ['nodes', 'services', 'endpointslices'].flatMap((resource) =>
      this.api.list(resource),
    )
    const nodeAddresses = state.links
      .filter(({ name }) => name !== 'kube-ipvs0')
      .flatMap(({ addresses }) => addresses.map(({ address }) => address))
    const config = { ...parseKubeProxyConfiguration(this.#config), nfacct: false }
    return predict(readObjects({ kind: 'List', items }).objects, {
      node,
      mode,
      version,
      config,
      nodeAddresses,
    })
  }

  /** What differs between the prediction and what a node holds, a line each. */
  differences(state: NodeState, node: NodeName, mode: KubeProxyMode): string[] {
    return compareNodeState(this.expected(state, node, mode), state, { mode }).map(
      ({ kind, text }) => `${kind}: ${text}`,
    )
  }

  /** The nodes as `make flush-nat` reaches them. */
  cluster(): NodeAccess & Pick<Cluster, 'nodes'> {
    return {
      driver: 'embedded',
      name: 'three-nodes',
      capabilities: LIKE_EMBEDDED,
      nodes: async () => [...names],
      script: (node, text, timeoutMs) => this.machine.script(text, { netns: node }, { timeoutMs }),
      exec: (node, command, options) => this.machine.run(command, { netns: node }, options),
    }
  }

  /**
   * Asks a Service `count` times, with a connection each, and counts who answered (`web1`, `web2`,
   * or `none`).
   */
  async ask(netns: string, address: string, count = 1): Promise<Record<string, number>> {
    const curl = `curl -s --max-time 2 -H 'Connection: close' 'http://${address}/?[1-${count}]'`
    return this.#answers(await this.sh(netns, curl), count)
  }

  /** Asks as `ask` does, but 20 times a second. */
  async load(netns: string, address: string, count: number): Promise<Record<string, number>> {
    const client = String.raw`use IO::Socket::INET; local $/; for (1 .. ${count}) {
  my $web = IO::Socket::INET->new(PeerAddr => '${address}:80', Timeout => 2) or next;
  print $web "GET / HTTP/1.0\r\n\r\n";
  print <$web> =~ s/.*\r\n\r\n//sr;
  select undef, undef, undef, 0.05;
}`
    const { stdout } = await this.machine.run(
      ['perl', '-e', client],
      { netns },
      { timeoutMs: 60_000 },
    )
    return this.#answers(stdout, count)
  }

  #answers(printed: string, count: number): Record<string, number> {
    const answers: Record<string, number> = {}
    const lines = printed.split('\n').filter(Boolean)
    const none = Array<string>(count - lines.length).fill('none')
    for (const line of [...lines, ...none]) {
      const who = line.split(' ')[0] ?? ''
      answers[who] = (answers[who] ?? 0) + 1
    }
    return answers
  }
}
