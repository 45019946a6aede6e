import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Cluster } from '../driver.ts'
import { SAVE_WITH_BACKEND } from '../iptables-backend.ts'
import type { KubeClient } from '../kube-client.ts'
import { type Agent, ipvsComplaint, proxierLine, readLog } from './agents.ts'

/** What one node says about the mode in force there. */
export interface ModeProof {
  node: string
  /** The answer of kube-proxy's own /proxyMode, or undefined when it did not answer. */
  proxyMode: string | undefined
  /** kube-proxy's log line that names the proxier. */
  logLine: string | undefined
  /** Its words when it can't run in IPVS mode; up to 1.25 it goes on in iptables mode then. */
  complaint?: string | undefined
  /** Addresses on kube-ipvs0, or undefined without that link. */
  dummyAddresses: number | undefined
  /** Whether nat KUBE-SERVICES matches sets (IPVS mode) or leads to a chain per Service (iptables mode). */
  rules: SwitchedMode | 'none'
  /** Schedulers of the virtual servers that stand there. */
  schedulers: string[]
}

/** Asks with what the node has: curl, wget, or bash itself. */
const askProxyMode = `
url=http://127.0.0.1:10249/proxyMode
if command -v curl >/dev/null; then curl -fsS --max-time 3 $url
elif command -v wget >/dev/null; then wget -qO- -T 3 $url
else bash -c 'exec 3<>/dev/tcp/127.0.0.1/10249 && printf "GET /proxyMode HTTP/1.0\\r\\n\\r\\n" >&3 && tail -n 1 <&3'
fi 2>/dev/null`

const look = `${SAVE_WITH_BACKEND}
echo "mode=$(${askProxyMode})"
if ip link show kube-ipvs0 >/dev/null 2>&1; then echo "dummy=$(ip -o addr show dev kube-ipvs0 | grep -c inet)"; fi
grep -sE '^(TCP|UDP|SCTP) ' /proc/net/ip_vs | sed 's/^[A-Z]* *[^ ]* *\\([a-z]*\\).*/scheduler=\\1/' | sort -u
save_with_backend iptables -t nat 2>/dev/null | grep '^-A KUBE-SERVICES '
exit 0`

/** Looks at one node once, with one exec. */
export async function lookAtNode(cluster: Cluster, client: KubeClient, agent: Agent): Promise<ModeProof> {
  const [{ stdout }, log] = await Promise.all([
    cluster.exec(agent.node, ['sh', '-c', look], { timeoutMs: 30_000 }),
    readLog(client, agent.pod),
  ])
  const mode = /^mode=(.*)$/m.exec(stdout)?.[1]
  const dummy = /^dummy=(\d+)$/m.exec(stdout)?.[1]
  return {
    node: agent.node,
    proxyMode: mode === '' ? undefined : mode,
    logLine: proxierLine(log),
    complaint: ipvsComplaint(log),
    dummyAddresses: dummy === undefined ? undefined : Number(dummy),
    schedulers: [...stdout.matchAll(/^scheduler=(\w+)$/gm)].map((match) => match[1] ?? ''),
    rules: / --match-set KUBE-/.test(stdout) ? 'ipvs' : / -j KUBE-SV[CL]-/.test(stdout) ? 'iptables' : 'none',
  }
}

/** True when kube-proxy's own word, its log and what the node holds agree on this mode, and on the scheduler if one is given. */
export function proves(proof: ModeProof, mode: SwitchedMode, scheduler?: string): boolean {
  const { proxyMode, logLine, dummyAddresses, rules, schedulers } = proof
  const said = proxyMode === mode && logLine !== undefined && logLine.includes(`Using ${mode} Proxier`)
  if (!said || rules !== mode) return false
  if (mode === 'iptables') return true
  return (dummyAddresses ?? 0) > 0 && (scheduler === undefined || schedulers.join() === scheduler)
}

/** A proof as one line for people. */
export function describeProof({ node, proxyMode, logLine, dummyAddresses, rules, schedulers }: ModeProof): string {
  const words = /Using \S+ Proxier/.exec(logLine ?? '')?.[0]
  const state = [
    rules === 'ipvs'
      ? 'KUBE-SERVICES matches sets'
      : rules === 'iptables'
        ? 'KUBE-SERVICES lists Services'
        : 'no rules yet',
    dummyAddresses === undefined ? 'no kube-ipvs0' : `kube-ipvs0 holds ${dummyAddresses} addresses`,
  ]
  if (rules === 'ipvs' && schedulers.length > 0) state.push(`scheduler ${schedulers.join(' and ')}`)
  return `${node}: /proxyMode says "${proxyMode ?? 'nothing'}", the log says "${words ?? 'nothing'}", ${state.join(', ')}`
}
