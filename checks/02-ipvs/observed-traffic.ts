import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { WebService } from '../../grading/web-service.ts'

/** One connection as IPVS holds it: who, and which backend. */
export interface IpvsConnection {
  client: string
  clientPort: number
  backend: string
}

const READINGS = /^#marked$([\s\S]*?)^#read$/gm
const MARKING = /^\[(\d+):\d+\] -A KUBE-SERVICES .*KUBE-CLUSTER-IP.*-j KUBE-MARK-MASQ$/m
const CONNECTION = /^(?:TCP|UDP|SCTP)\s+\S+\s+\S+\s+([\d.]+):(\d+)\s+(\S+)\s+([\d.]+):\d+$/gm

/**
 * Shell text that prints the rules with their packet counters, of which that of the rule counts that marks what comes from outside
 * the Pod network. kube-proxy zeroes it at each sync, so a reading below the one before says nothing.
 */
export function readMarked(): string {
  return "echo '#marked'; iptables-save -c -t nat; echo '#read'"
}

/** The readings in a script's output, in order; a rule that is not there reads as 0, rules that could not be read are no reading. */
export function parseMarked(stdout: string): number[] {
  const readings = [...stdout.matchAll(READINGS)]
    .map(([, rules = '']) => rules)
    .filter((rules) => /^\*nat$/m.test(rules))
  return readings.map((rules) => Number(MARKING.exec(rules)?.[1] ?? 0))
}

/**
 * Shell text that lists the connections of IPVS. They show at once, while the numbers of `ipvsadm --stats` are gathered every two
 * seconds only.
 */
export const listConnections = 'ipvsadm -Lnc'

/** The connections toward a Service in the output of `ipvsadm -Lnc`. */
export function parseConnections(stdout: string, { address, port }: WebService): IpvsConnection[] {
  return [...stdout.matchAll(CONNECTION)]
    .filter(([, , , virtual]) => virtual === `${address}:${port}`)
    .map(([, client = '', clientPort, , backend = '']) => ({ client, clientPort: Number(clientPort), backend }))
}

export interface MarkedChange {
  /** Packets on the marking rule. */
  before: number
  after: number
  output: string
}

/** Runs a script on a node between two readings of the marking rule; undefined when they could not be read. */
export async function watchMarked(live: LiveCluster, node: string, script: string): Promise<MarkedChange | undefined> {
  const reading = readMarked()
  const { stdout } = await live.onNode(node, `${reading}\n${script}\n${reading}`)
  const [before, after] = parseMarked(stdout)
  return before === undefined || after === undefined ? undefined : { before, after, output: stdout }
}
