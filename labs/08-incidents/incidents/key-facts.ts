// What a diagnosis in one's own words must name, for every cause; course/incident/key-facts.ts
// matches the sentences, in lower case and without quotes.

import type { FactTable } from '../../../course/incident/key-facts.ts'
import type { IncidentEnvironment } from '../../../course/incident/shop.ts'

const ofCustomer = ({ node }: IncidentEnvironment) => node
const first = ({ nodes }: IncidentEnvironment) => nodes[0] ?? ''

const SERVICE = /\bservices?\b|\bsvc\b|\bshop(-np|-lb)?\b/
const GONE = /miss|\bno\b|\bnot\b|\bgone\b|delet|remov|\blost\b|without|lack|n.?t\b/
const LEFT = /left|stale|\bold\b|previous|former|remain|\bstill\b|clos|delet/

export const keyFacts: FactTable = {
  'selector-typo': {
    object: SERVICE,
    field: /selector|labels?\b/,
    fault: /\bno\b|\bnone\b|match|typo|mis-?sp|wrong|shoop|empty|differ/,
    unless: /proxy-name|mesh|node ?selector|kube-proxy/,
    example: () => 'The selector of the Service shop matches no Pod: it selects app=shoop.',
    reads: ['1/web', '1/no-endpoints'],
  },
  'wrong-port-name': {
    object: SERVICE,
    field: /target ?port|port ?name|name of (the|a|its) port|named port/,
    fault:
      /\bhttp\b(?!:)|no (such|pod)|unknown|not (exist|defined|have)|n.?t (exist|have)|wrong name|nam(e|es|ed)\b/,
    unless: /8080/,
    example: () => 'The Service shop has the targetPort http, a name that no port of its Pods has.',
    reads: ['1/chains', '1/no-endpoints'],
  },
  'wrong-target-port': {
    object: SERVICE,
    field: /target ?port|\bport\b/,
    fault: /8080|listen|no process|closed port/,
    unless: /\bhttp\b(?!:)|udp|node ?port|probe|\bready\b/,
    example: () => 'The targetPort of the Service shop is 8080, and its Pods do not listen there.',
    reads: ['1/chains', '1/whole'],
  },
  'unready-backends': {
    object: /\bpods?\b|deployment|endpoints?\b|backends?/,
    field: /readiness|\bprobe|\bready\b|unready/,
    fault:
      /not ready|unready|n.?t ready|fail|404|healthz|wrong (path|page|url)|not exist|0\/1|never/,
    unless: /kube-proxy|scheduler|module|always|before|\btrue\b|too early/,
    example: () =>
      'The Pods of the Deployment shop are not ready: their readiness probe requests /healthz, which nginx answers with 404.',
    reads: ['7/probed', '1/no-endpoints'],
  },
  'hollow-probe': {
    object: /\bpods?\b|deployment|container|shop-next|next release/,
    field: /readiness|\bprobe|\bready\b/,
    fault:
      /always|before|\btrue\b|too early|(not|n.?t) (yet )?listen|(asks|tests|checks|requests) nothing/,
    unless: /healthz|404|(not|n.?t|never) ready|unready|0\/1|wrong path/,
    example: () =>
      'The readiness probe of the Deployment shop-next always succeeds, so its Pod is ready before its program listens.',
    reads: ['10/naive', '10/careful'],
  },
  'evicted-agent': {
    object: /kube-?proxy|daemon ?set/,
    field: /label|node ?selector|\bpods?\b|kubernetes\.io\/os|daemon ?set|rules/,
    fault:
      /no kube-?proxy|miss|not (run|sched|match)|n.?t (run|sched|match)|linux-rt|evict|gone|without|lack|no pod|no longer runs/,
    unless: /scheduler|module|ip_vs|proxy-name/,
    node: ofCustomer,
    example: ({ node }) =>
      `No kube-proxy Pod runs on ${node}: its label kubernetes.io/os does not match the nodeSelector of the DaemonSet.`,
    reads: ['1/scale', '1/mode'],
  },
  'forgotten-canary': {
    object: /kube-?proxy|daemon ?set|\bnode\b/,
    field: /\bmode\b|\bipvs\b/,
    fault:
      /second|canary|kube-proxy-next|(another|other|different|own|wrong) (mode|daemon|kube-?proxy)|still (runs?|in|has)/,
    unless: /modul|scheduler|virtual server|kube-ipvs0|reject|weight|linux-rt|scheduled/,
    node: ofCustomer,
    example: ({ node }) =>
      `A second DaemonSet still runs kube-proxy in IPVS mode on ${node}, by the label kube-proxy=next.`,
    reads: ['9/canary', '9/back'],
  },
  'foreign-proxy': {
    object: SERVICE,
    field: /proxy-name|proxy name|\blabel/,
    fault: /mesh|(other|another|foreign|different) proxy|ignor|not (by )?kube-?proxy/,
    example: () =>
      'The label service.kubernetes.io/service-proxy-name=mesh of the Service shop makes kube-proxy ignore it.',
    reads: ['1/chain-name', '1/ports'],
  },
  'missing-module': {
    object: /kube-?proxy|\bnodes?\b|kernel/,
    field: /module|ip_vs|modprobe/,
    fault:
      /forbid|forbad|black ?list|block|can.?t|cannot|not (be )?load|miss|disabl|bin\/false|exit|crash|fail|prevent/,
    unless: /fastest|virtual server|weight/,
    example: () =>
      'kube-proxy exits because the kernel module ip_vs is forbidden in /etc/modprobe.d on the nodes.',
    reads: ['2/ipvs', '2/tools'],
  },
  'lost-endpoint-rule': {
    object: /kube-sep|endpoint|\bchain/,
    field: /dnat|\brule|translat/,
    fault: GONE,
    unless: /masq|postrouting|track|reject|kube-ipvs0|\bdrop|input|firewall|\braw\b/,
    node: ofCustomer,
    example: ({ node }) => `On ${node} one chain KUBE-SEP-… of the shop has lost its DNAT rule.`,
    reads: ['1/chains', '1/shares'],
  },
  'missing-masquerade': {
    object: /postrouting|\bchain|\bnode\b|\brule/,
    field: /\bjump|masquerad|snat|source/,
    fault: GONE,
    unless: /source ?range|allow|dnat|reject|notrack|conntrack|affinity/,
    node: first,
    example: ({ nodes }) =>
      `POSTROUTING on ${nodes[0]} has lost its jump to KUBE-POSTROUTING, so packets are not masqueraded.`,
    reads: ['3/cluster-policy', '2/postrouting'],
  },
  'stale-reject': {
    object: /\bchain|\brules?\b|kube-external-services|iptables/,
    field: /reject/,
    fault: /left|stale|\bold\b|previous|former|remain|\bstill\b|iptables mode/,
    example: () =>
      'Rules of iptables mode are left over: KUBE-EXTERNAL-SERVICES still rejects packets for the node port.',
    reads: ['2/leftovers', '2/flush'],
  },
  untracked: {
    object: /\brule|\braw\b|prerouting|iptables/,
    field: /\braw\b|no-?track|track|\bct\b/,
    fault: /no-?track|exempt|untracked|not (be )?tracked|without|skip|disabl|bypass/,
    unless: /udp|\bflow/,
    node: ofCustomer,
    example: ({ node }) =>
      `A rule in raw PREROUTING on ${node} exempts packets for the shop from connection tracking (NOTRACK).`,
    reads: ['1/three-ways', '2/conntrack'],
  },
  'ip-forward-off': {
    object: /\bnode\b|kernel|sysctl|worker|control-plane/,
    field: /ip_?forward|forwarding|ip forward|not forward|n.?t forward/,
    fault: /\boff\b|=\s?0|\bis 0\b|\b0\b|disabl|not forward|n.?t forward|not enabled|turned off/,
    unless: /weight/,
    node: ofCustomer,
    example: ({ node }) => `The kernel of ${node} does not forward: net.ipv4.ip_forward is 0.`,
    reads: ['1/three-ways', '1/probes'],
  },
  'stale-connection': {
    object: /conntrack|\bflow|connection tracking|connection/,
    field: /udp|entry|entries|\bflow|till|5300|datagram/,
    fault: /stale|\bold\b|gone|delet|not exist|no longer exist|no pod|replaced|dead|n.?t exist/,
    unless: /no-?track|exempt/,
    example: () =>
      'conntrack still has an entry that sends the UDP flow of the till to a Pod that no longer exists.',
    reads: ['2/conntrack'],
  },
  'port-out-of-range': {
    object: /\bservices?\b|\bsvc\b|shop-web|manifest|release|\bapi\b/,
    field: /node ?port|\bport\b/,
    fault: /\brange\b|30000|32767|20080/,
    unless: /source ?range/,
    example: () =>
      'The Service shop-web does not exist: its nodePort 20080 is outside of the range 30000-32767, so the API rejects it.',
    reads: ['3/node-port', '3/node-port-chain'],
  },
  'local-policy': {
    object: SERVICE,
    field: /traffic ?policy/,
    fault: /\blocal\b/,
    unless: /internal/,
    example: () =>
      'The Service shop-np has externalTrafficPolicy Local, and nodes without a Pod drop its packets.',
    reads: ['3/local-policy', '3/health-check'],
  },
  'internal-policy': {
    object: SERVICE,
    field: /traffic ?policy/,
    fault: /\blocal\b/,
    unless: /external/,
    example: () =>
      'The Service shop has internalTrafficPolicy Local, and nodes without a Pod drop its packets.',
    reads: ['3/local-policy'],
  },
  'close-endpoints': {
    object: SERVICE,
    field: /traffic ?distribution|\bhints?\b|prefer ?(close|same)|\bzones?\b/,
    fault: /close|same ?(zone|node)|(own|one|its) zone|keeps?|left out|leaves out|only|ignor/,
    unless: /affinity|traffic ?policy|reject/,
    example: () =>
      'The Service shop has trafficDistribution PreferClose: kube-proxy uses only the endpoints of the own zone.',
    reads: ['11/zone', '1/shares'],
  },
  'session-affinity': {
    object: SERVICE,
    field: /affinity|client ?ip|sticky|-m recent/,
    fault: /client ?ip|same pod|one pod|sticky|always|three hours|each client/,
    example: () => 'The Service shop has sessionAffinity ClientIP: one client always gets one Pod.',
    reads: ['1/probability', '1/shares'],
  },
  'source-ranges': {
    object: /\bservices?\b|\bsvc\b|shop-lb|load ?balancer/,
    field: /source ?ranges?|allowed (sources|clients|addresses)|allow-?list|kube-fw/,
    fault: /not |n.?t |miss|wrong|198\.51\.100|exclud|block|lack|only/,
    example: () =>
      'loadBalancerSourceRanges of the Service shop-lb do not contain the address of the warehouse.',
    reads: ['3/source-ranges', '3/load-balancer'],
  },
  'leftover-virtual-server': {
    object: /virtual server|ipvs|kube-ipvs0/,
    field: /address|virtual server|kube-ipvs0|service/,
    fault: LEFT,
    unless: /mark|fwm|reject|weight|janitor|removes|removing|deletes|scheduler|module/,
    node: ofCustomer,
    example: ({ node }) =>
      `${node} still has a virtual server of IPVS and the address of the deleted Service on kube-ipvs0.`,
    reads: ['2/kube-ipvs0', '2/leftovers'],
  },
  'marked-virtual-server': {
    object: /virtual server|ipvs|load balancer/,
    field: /\bmark|fwm|fwmark|0x4000|16384/,
    fault:
      /take|catch|caught|steal|no real server|without real|another|other|foreign|first|drop|swallow|left|not kube-?proxy|empty/,
    node: first,
    example: ({ nodes }) =>
      `A virtual server for the firewall mark 0x4000 without real servers takes kube-proxy's marked packets on ${nodes[0]}.`,
    reads: ['4/virtual-server', '2/node-port'],
  },
  'weight-zero': {
    object: /real servers?|ipvs|virtual server|backends?|endpoints?/,
    field: /weight/,
    fault: /\b0\b|zero|drain/,
    node: ofCustomer,
    example: ({ node }) => `The real servers of the shop have weight 0 in IPVS on ${node}.`,
    reads: ['2/virtual-servers', '4/virtual-server'],
  },
  'unknown-scheduler': {
    object: /kube-?proxy|config ?map|config/,
    field: /scheduler/,
    fault: /fastest|unknown|not exist|n.?t exist|no such|invalid|not known|exit|crash|wrong/,
    example: () =>
      'The ConfigMap of kube-proxy names the IPVS scheduler "fastest", which does not exist, so kube-proxy exits.',
    reads: ['2/scheduler', '4/virtual-server'],
  },
  'address-janitor': {
    object: /kube-ipvs0|\bpod\b|janitor|program|process|address/,
    field: /kube-ipvs0|cluster ?ip|address|interface/,
    fault: /remov|delet|sweep|clean|takes? away|janitor/,
    unless: /old shop|left|deleted service|virtual server/,
    node: ofCustomer,
    example: ({ node }) =>
      `The Pod net-janitor removes the ClusterIP of the shop from kube-ipvs0 on ${node}.`,
    reads: ['2/kube-ipvs0', '5/gained-addresses'],
  },
  'own-firewall': {
    object: /\brule|firewall|\binput\b|iptables/,
    field: /\binput\b|close-shop|repl(y|ies)|firewall/,
    fault: /drop|repl(y|ies)|block/,
    unless: /kube-fw|source ?range|traffic ?policy|masquerad/,
    node: ofCustomer,
    example: ({ node }) =>
      `A firewall rule in INPUT on ${node} drops the replies to the node's own requests to the shop.`,
    reads: ['5/own-filter', '5/filter-chain'],
  },
}
