// One thing broken on a worker, or on the control plane, of a cluster on which lab 3 is solved, by
// the steps that must fail. A breakage without a repair is undone by restoring the tables of
// iptables.

import { deleteRule, listBreakages } from './breakage.ts'

/** The facts that a breakage may use. */
export interface OutsideEnvironment {
  /** The node port of web-np. */
  nodePort: number
  /** web-lb: address, health check port, and the hash in its chains' names. */
  balanced: { address: string; healthPort: number; hash: string }
  /** The hashes in the names of the chains of web and web-np. */
  web: string
  exposed: string
}

/**
 * A foreign rule that drops packets before any rule of a Service; its table may not be there to be
 * restored.
 */
const raw = (action: '-I' | '-D', match: string) =>
  `iptables -t raw ${action} PREROUTING ${match} -j DROP`

export const breakages = listBreakages<OutsideEnvironment, { at?: 'control-plane' }>({
  whole: {
    'a rule of a Service that the lab does not use is deleted': deleteRule(
      'KUBE-SERVICES',
      'kube-dns:metrics',
    ),
    'a chain of a Service that is long gone is left': {
      at: 'control-plane',
      break: 'iptables -t nat -N KUBE-SVL-LONGGONELONGGONE',
      repair: 'iptables -t nat -X KUBE-SVL-LONGGONELONGGONE 2>/dev/null; true',
    },
  },
  web: {
    "web's own chain is emptied": ({ web }) => `iptables -t nat -F KUBE-SVC-${web}`,
  },
  'node-port': {
    'the jump to KUBE-NODEPORTS is deleted': deleteRule('KUBE-SERVICES', 'KUBE-NODEPORTS'),
    'another rule follows the jump to KUBE-NODEPORTS':
      'iptables -t nat -A KUBE-SERVICES -d 203.0.113.9 -j RETURN',
  },
  'node-port, cluster-policy': {
    'packets to the node port are dropped': {
      at: 'control-plane',
      break: ({ nodePort }) => raw('-I', `-p tcp --dport ${nodePort}`),
      repair: ({ nodePort }) => raw('-D', `-p tcp --dport ${nodePort}`),
    },
  },
  'cluster-policy': {
    'the mark for what comes from outside is deleted': ({ exposed }) =>
      deleteRule(`KUBE-EXT-${exposed}`, 'KUBE-MARK-MASQ'),
    'marked packets slip past the masquerade': {
      at: 'control-plane',
      break: 'iptables -t nat -I POSTROUTING -m mark --mark 0x4000/0x4000 -j ACCEPT',
    },
  },
  'load-balancer': {
    "the rule for the load balancer's address is deleted": ({ balanced }) =>
      deleteRule('KUBE-SERVICES', balanced.address),
    "packets to the load balancer's address are dropped": {
      break: ({ balanced }) => raw('-I', `-d ${balanced.address}`),
      repair: ({ balanced }) => raw('-D', `-d ${balanced.address}`),
    },
  },
  'local-policy': {
    "the path to the node's own Pods is deleted": ({ balanced }) =>
      deleteRule(`KUBE-EXT-${balanced.hash}`, 'KUBE-SVL'),
    'a node without Pods uses those of other nodes': {
      at: 'control-plane',
      break: ({ balanced }) =>
        `iptables -t nat -A KUBE-EXT-${balanced.hash} -j KUBE-SVC-${balanced.hash}`,
    },
    'another rule masquerades packets to Pods':
      'iptables -t nat -I POSTROUTING -d 10.244.0.0/16 -j MASQUERADE',
  },
  'health-check': {
    'health checks are dropped': ({ balanced }) =>
      `iptables -I INPUT -p tcp --dport ${balanced.healthPort} -j DROP`,
    'the rule that lets health checks in is deleted': {
      at: 'control-plane',
      break: ({ balanced }) =>
        deleteRule('KUBE-NODEPORTS', `--dport ${balanced.healthPort} `, 'filter'),
    },
  },
  'anti-affinity': {
    'one Pod gets no requests from its node': ({ balanced }) =>
      `iptables -t nat -D KUBE-SVL-${balanced.hash} 1`,
  },
  'source-ranges': {
    'the rule that drops other clients is deleted': 'iptables -F KUBE-PROXY-FIREWALL',
  },
})
