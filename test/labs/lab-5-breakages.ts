// One thing broken while a step of lab 5 is solved and not yet graded: the step must fail. The
// tables of iptables are restored after each; a repair undoes what else was changed.

import { type Breakage, deleteRules, editTable, listBreakages } from './breakage.ts'

export interface BreakageEnvironment {
  /** Node of the client. */
  node: string
  /** Another node with an agent. */
  other: string
  client: string
  /** ClusterIP of web. */
  web: string
}

/** Made on the other node instead of the client's. */
interface Place {
  elsewhere?: boolean
}
export type Lab5Breakage = Breakage<BreakageEnvironment> & Place

const agentsPort = 'iptables -I INPUT -p tcp --dport 9100 -j REJECT'
export const breakages = listBreakages<BreakageEnvironment, Place>({
  stage: {
    "the agent's port is closed on the node's own address": agentsPort,
  },
  closed: {
    'an address of an earlier IPVS mode is left': {
      break: ({ web }) => `ip link add kube-ipvs0 type dummy; ip addr add ${web}/32 dev kube-ipvs0`,
      repair: 'ip link del kube-ipvs0',
    },
  },
  'forward-rule': {
    'the rule is deleted': deleteRules('filter', '-A FORWARD .*lab-5'),
    'the rule is about another port': editTable('filter', 's/(-A FORWARD .*--dport) 80/\\1 81/'),
  },
  exposed: {
    'a rule of the learner closes one ClusterIP':
      'iptables -I INPUT -d 10.96.0.1 -p tcp --dport 9100 -j REJECT',
    'a ClusterIP is lost on kube-ipvs0': {
      break: ({ web }) => `ip addr del ${web}/32 dev kube-ipvs0`,
      repair: ({ web }) => `ip addr replace ${web}/32 dev kube-ipvs0`,
    },
  },
  'not-asked': {
    'the rule is gone': deleteRules('filter', '-A FORWARD .*lab-5'),
    'the rule no longer stops anything': ({ client }) =>
      `iptables -I FORWARD -s ${client} -j ACCEPT`,
    'the Service is closed by another rule': ({ web }) => `iptables -I INPUT -d ${web} -j REJECT`,
  },
  'either-mode': {
    'only FORWARD is closed': deleteRules('filter', '-A INPUT .*lab-5'),
    'only INPUT is closed': deleteRules('filter', '-A FORWARD .*lab-5'),
  },
  'own-filter': {
    'one worker has no filter': {
      elsewhere: true,
      break: deleteRules('filter', '-A INPUT .*lab-5'),
    },
    'the filter closes Services, too': 'iptables -I INPUT -d 10.96.0.0/16 -j REJECT',
    "it matches replies to the other node's own requests, too": {
      elsewhere: true,
      break: editTable('filter', 's/(-A INPUT .*)-m conntrack --ctstate NEW (.*lab-5)/\\1\\2/'),
    },
    "a rule keeps the node's own requests from the API server":
      'iptables -t mangle -I OUTPUT -d 10.96.0.1 -p tcp --dport 443 -j DROP',
  },
  bound: {
    'a filter is there although none is needed':
      'iptables -I INPUT -d 10.96.0.0/16 -p tcp --dport 9100 -j REJECT',
    "the agent's own address is unreachable": agentsPort,
  },
  'access-filter': {
    'the jump to the filter is deleted': {
      elsewhere: true,
      break: deleteRules('filter', '-j KUBE-IPVS-FILTER'),
    },
    'the rejecting rule is deleted': deleteRules('filter', '-A KUBE-IPVS-FILTER .*REJECT'),
    'Services no longer return': deleteRules('filter', '-A KUBE-IPVS-FILTER .*KUBE-CLUSTER-IP'),
    'an address is lost from the set': {
      break: ({ web }) => `ipset del KUBE-IPVS-IPS ${web}`,
      repair: ({ web }) => `ipset -exist add KUBE-IPVS-IPS ${web}`,
    },
    'a rule of the learner matches first': agentsPort,
  },
  incident: {
    'a rule that was added for the search is left': 'iptables -I INPUT -s 203.0.113.9 -j DROP',
  },
  whole: {
    'a rule that only counts is forgotten': {
      elsewhere: true,
      break: ({ web }) => `iptables -I FORWARD -d ${web} -m comment --comment lab-5-count`,
    },
    'a chain of iptables mode is left': {
      break: 'iptables -t nat -N KUBE-SVC-LONGGONELONGGONE',
      repair: 'iptables -t nat -X KUBE-SVC-LONGGONELONGGONE 2>/dev/null; true',
    },
  },
})

/** Answers that are wrong, by question. */
export const wrongAnswers: Record<string, string> = {
  'gained-addresses': '17',
  'filter-chain': 'FORWARD',
  'rejecting-set': 'KUBE-CLUSTER-IP',
}
