// One thing broken while a step of lab 5 is solved and not yet graded: the step must fail.

export interface BreakageEnvironment {
  /** Node of the client. */
  node: string
  /** Another node with an agent. */
  other: string
  client: string
  /** ClusterIP of web. */
  web: string
}

export interface Breakage {
  what: string
  step: string
  /** Shell text; the tables of iptables are put back as they were afterwards. */
  break(environment: BreakageEnvironment): string
  /** What else has to be put back. */
  repair?(environment: BreakageEnvironment): string
  /** Made on the other node instead of the client's. */
  elsewhere?: boolean
}

const agentsPort = 'iptables -I INPUT -p tcp --dport 9100 -j REJECT'
const deleteLines = (table: string, pattern: string) =>
  `iptables-save -c -t ${table} | sed '/${pattern}/d' | iptables-restore -c -T ${table}`
const editFilter = (sed: string) => `iptables-save -c -t filter | sed -E '${sed}' | iptables-restore -c -T filter`

export const breakages: Breakage[] = [
  { what: "the agent's port is closed on the node's own address", step: 'stage', break: () => agentsPort },
  {
    what: 'an address of an earlier IPVS mode is left',
    step: 'closed',
    break: ({ web }) => `ip link add kube-ipvs0 type dummy; ip addr add ${web}/32 dev kube-ipvs0`,
    repair: () => 'ip link del kube-ipvs0',
  },
  { what: 'the rule is deleted', step: 'forward-rule', break: () => deleteLines('filter', '-A FORWARD .*lab-5') },
  {
    what: 'the rule is about another port',
    step: 'forward-rule',
    break: () => editFilter('s/(-A FORWARD .*--dport) 80/\\1 81/'),
  },
  {
    what: 'a rule of the learner closes one ClusterIP',
    step: 'exposed',
    break: () => 'iptables -I INPUT -d 10.96.0.1 -p tcp --dport 9100 -j REJECT',
  },
  {
    what: 'a ClusterIP is lost on kube-ipvs0',
    step: 'exposed',
    break: ({ web }) => `ip addr del ${web}/32 dev kube-ipvs0`,
    repair: ({ web }) => `ip addr replace ${web}/32 dev kube-ipvs0`,
  },
  { what: 'the rule is gone', step: 'not-asked', break: () => deleteLines('filter', '-A FORWARD .*lab-5') },
  {
    what: 'the rule no longer stops anything',
    step: 'not-asked',
    break: ({ client }) => `iptables -I FORWARD -s ${client} -j ACCEPT`,
  },
  {
    what: 'the Service is closed by another rule',
    step: 'not-asked',
    break: ({ web }) => `iptables -I INPUT -d ${web} -j REJECT`,
  },
  { what: 'only FORWARD is closed', step: 'either-mode', break: () => deleteLines('filter', '-A INPUT .*lab-5') },
  { what: 'only INPUT is closed', step: 'either-mode', break: () => deleteLines('filter', '-A FORWARD .*lab-5') },
  {
    what: 'one worker has no filter',
    step: 'own-filter',
    elsewhere: true,
    break: () => deleteLines('filter', '-A INPUT .*lab-5'),
  },
  {
    what: 'the filter closes Services, too',
    step: 'own-filter',
    break: () => 'iptables -I INPUT -d 10.96.0.0/16 -j REJECT',
  },
  {
    what: 'a filter is there although none is needed',
    step: 'bound',
    break: () => 'iptables -I INPUT -d 10.96.0.0/16 -p tcp --dport 9100 -j REJECT',
  },
  { what: "the agent's own address is unreachable", step: 'bound', break: () => agentsPort },
  {
    what: 'the jump to the filter is deleted',
    step: 'access-filter',
    elsewhere: true,
    break: () => deleteLines('filter', '-j KUBE-IPVS-FILTER'),
  },
  {
    what: 'the rejecting rule is deleted',
    step: 'access-filter',
    break: () => deleteLines('filter', '-A KUBE-IPVS-FILTER .*REJECT'),
  },
  {
    what: 'Services no longer return',
    step: 'access-filter',
    break: () => deleteLines('filter', '-A KUBE-IPVS-FILTER .*KUBE-CLUSTER-IP'),
  },
  {
    what: 'an address is lost from the set',
    step: 'access-filter',
    break: ({ web }) => `ipset del KUBE-IPVS-IPS ${web}`,
    repair: ({ web }) => `ipset -exist add KUBE-IPVS-IPS ${web}`,
  },
  { what: 'a rule of the learner matches first', step: 'access-filter', break: () => agentsPort },
  {
    what: 'a rule that only counts is forgotten',
    step: 'whole',
    elsewhere: true,
    break: ({ web }) => `iptables -I FORWARD -d ${web} -m comment --comment lab-5-count`,
  },
  {
    what: 'a chain of iptables mode is left',
    step: 'whole',
    break: () => 'iptables -t nat -N KUBE-SVC-LONGGONELONGGONE',
    repair: () => 'iptables -t nat -X KUBE-SVC-LONGGONELONGGONE 2>/dev/null; true',
  },
]

/** Answers that are wrong, by question. */
export const wrongAnswers: Record<string, string> = {
  'gained-addresses': '17',
  'filter-chain': 'FORWARD',
  'rejecting-set': 'KUBE-CLUSTER-IP',
}
