// One thing broken on one node of a cluster on which lab 1 is solved, by the step that must fail.
// The tables of iptables are restored after each; a repair undoes what else was changed.

import { deleteRules, editTable, listBreakages } from './breakage.ts'

export interface BreakageEnvironment {
  node: string
  /** ClusterIPs. */
  web: string
  mirror: string
  nobody: string
  threePorts: string
  webChain: string
}

export const breakages = listBreakages<
  BreakageEnvironment,
  {
    /**
     * Made on the node of the client (with the probes), of the Pod mirror, or on one with neither.
     */
    at: 'client' | 'mirror' | 'other'
  }
>({
  whole: {
    'a rule of a Service that the lab does not use is deleted': {
      at: 'other',
      break: deleteRules('nat', '-A KUBE-SERVICES .*kube-dns:metrics'),
    },
    'a chain of a Service that is long gone is left': {
      at: 'other',
      break: 'iptables -t nat -N KUBE-SVC-LONGGONELONGGONE',
      repair: 'iptables -t nat -X KUBE-SVC-LONGGONELONGGONE 2>/dev/null; true',
    },
  },
  probes: {
    'a probe is deleted': { at: 'client', break: deleteRules('mangle', '-A FORWARD .*probe') },
  },
  'three-ways': {
    'the probe of a hook counts another port': {
      at: 'client',
      break: editTable('mangle', 's/(-A OUTPUT .*--dport) 10256/\\1 10257/'),
    },
    'the node refuses to forward the packet': {
      at: 'client',
      break: 'iptables -I FORWARD -p tcp --dport 10256 -j REJECT',
    },
    'the counters are zero': { at: 'client', break: 'iptables -t mangle -Z' },
  },
  namespaces: {
    'another node has a probe, too': {
      at: 'other',
      break: 'iptables -t mangle -A INPUT -p tcp --syn --dport 10256 -m comment --comment probe',
    },
  },
  families: {
    'a probe of ip6tables is deleted': {
      at: 'client',
      break: 'ip6tables -t mangle -D OUTPUT 1',
      repair: 'ip6tables -t mangle -A OUTPUT -p tcp --syn --dport 10256 -m comment --comment probe',
    },
  },
  chains: {
    'the entry of web in KUBE-SERVICES is deleted': {
      at: 'other',
      break: ({ web }) => deleteRules('nat', `-A KUBE-SERVICES .*-d ${web}/32`),
    },
    "a rule of web's chain is deleted": {
      at: 'other',
      break: ({ webChain }) => `iptables -t nat -D ${webChain} 3`,
    },
    "web's chain leads to an endpoint twice": {
      at: 'other',
      break: ({ webChain }) =>
        `iptables -t nat -A ${webChain} -j $(iptables -t nat -S ${webChain} | sed -n 's/.*-j \\(KUBE-SEP-[A-Z0-9]*\\)$/\\1/p' | head -n 1)`,
    },
    'a DNAT goes to another Pod': {
      at: 'other',
      break: editTable(
        'nat',
        's#(-A KUBE-SEP-.*"default/web".*--to-destination) [0-9.]+:80#\\1 10.244.77.7:80#',
      ),
    },
    'a foreign rule is before the jump of PREROUTING': {
      at: 'other',
      break: 'iptables -t nat -I PREROUTING -d 203.0.113.9 -j RETURN',
    },
    'the jump of OUTPUT is deleted': {
      at: 'other',
      break: deleteRules('nat', '-A OUTPUT .*KUBE-SERVICES'),
    },
  },
  'no-address': {
    'an interface has a ClusterIP': {
      at: 'other',
      break: ({ web }) => `ip addr add ${web}/32 dev lo`,
      repair: ({ web }) => `ip addr del ${web}/32 dev lo`,
    },
  },
  shares: {
    'the first Pod is drawn nine times of ten': {
      at: 'other',
      break: ({ webChain }) =>
        editTable('nat', `s/(-A ${webChain} .*--probability) 0.2[0-9]*/\\1 0.90000000000/`),
    },
    'packets of the client to web are refused': {
      at: 'client',
      break: 'iptables -I FORWARD -p tcp --dport 80 -j REJECT',
    },
  },
  ports: {
    'an entry of a Service port is deleted': {
      at: 'other',
      break: ({ threePorts }) =>
        deleteRules('nat', `-A KUBE-SERVICES .*-d ${threePorts}/32 .*--dport 8002 `),
    },
  },
  hairpin: {
    'the endpoint of mirror is not marked when it calls itself': {
      at: 'mirror',
      break: deleteRules('nat', '-A KUBE-SEP-.*default/mirror.*KUBE-MARK-MASQ'),
    },
    'what is marked is not masqueraded': {
      at: 'mirror',
      break: deleteRules('nat', '-A KUBE-POSTROUTING .*-j MASQUERADE'),
    },
  },
  'no-endpoints': {
    'no rule rejects packets for the Service nobody': {
      at: 'other',
      break: ({ nobody }) => deleteRules('filter', `-A KUBE-SERVICES .*-d ${nobody}/32`),
    },
    'packets for the Service nobody are dropped': {
      at: 'other',
      break: ({ nobody }) => `iptables -I OUTPUT -d ${nobody} -j DROP`,
    },
  },
})
