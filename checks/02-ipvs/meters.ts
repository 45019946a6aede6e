import type { LiveCluster } from '../live-cluster.ts'
import type { WebService } from '../web-service.ts'

/** What a node counted for one Service at one moment. */
export interface Meters {
  /** Packets on the rule of KUBE-SERVICES that marks what comes from outside the Pod network. */
  marked: number
  /** Connections and packets toward the Service that IPVS handled, since the virtual server was made. */
  connections: number
  packets: number
}

const METERS = /^#meters (\d*) (\d*) (\d*)$/gm

/**
 * Shell text that prints one line of meters. kube-proxy zeroes rule counters at each sync, so a reading below the one
 * before says nothing; IPVS counters only grow.
 */
export function readMeters({ address, port }: WebService): string {
  const rule = 's/^\\[\\([0-9]*\\):.*-A KUBE-SERVICES .*KUBE-CLUSTER-IP.*-j KUBE-MARK-MASQ$/\\1/p'
  const stats = `ipvsadm -Ln --stats --exact -t ${address}:${port} 2>/dev/null | sed -n 's/^TCP *[^ ]* *\\([0-9]*\\) *\\([0-9]*\\) .*/\\1 \\2/p'`
  return `echo "#meters $(iptables-save -c -t nat | sed -n '${rule}') $(${stats})"`
}

/** The lines of meters in a script's output, in order; a missing number reads as 0. */
export function parseMeters(stdout: string): Meters[] {
  return [...stdout.matchAll(METERS)].map(([, marked, connections, packets]) => ({
    marked: Number(marked ?? 0),
    connections: Number(connections ?? 0),
    packets: Number(packets ?? 0),
  }))
}

export interface MeterChange {
  before: Meters
  after: Meters
  /** Everything else that the script printed. */
  output: string
}

/** Runs a script on a node between two readings of its meters. */
export async function metered(
  live: LiveCluster,
  node: string,
  service: WebService,
  script: string,
): Promise<MeterChange | undefined> {
  const meters = readMeters(service)
  const { stdout } = await live.onNode(node, `${meters}\n${script}\n${meters}`)
  const [before, after] = parseMeters(stdout)
  return before && after ? { before, after, output: stdout.replace(METERS, '') } : undefined
}
