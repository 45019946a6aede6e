// One thing broken while a step of lab 11 is solved and not yet graded: the step must fail. The
// tables of iptables are restored after each; a repair undoes what else was changed.

import { type Breakage, deleteRules, editTable, listBreakages } from './breakage.ts'

export interface BreakageEnvironment {
  /** The nodes of the clients. */
  near: string
  far: string
  client: string
  /** ClusterIP of web. */
  web: string
  /**
   * Pods of web at the beginning: beside each client, and the other one in the first client's zone.
   */
  ownPod: string
  zonePod: string
  farPod: string
}

/** Made on the node of client-b instead of the client's. */
interface Options {
  far?: boolean
}
export type Lab11Breakage = Breakage<BreakageEnvironment> & Options

const editNat = (sed: string) => editTable('nat', sed)
/** Leads what is for one Pod to another one. */
const misled = (from: string, to: string) =>
  editNat(`s/(-j DNAT --to-destination) ${from}:80/\\1 ${to}:80/`)
const closed = ({ web }: BreakageEnvironment) =>
  `iptables -I FORWARD -m conntrack --ctorigdst ${web} -j DROP`

export const breakages = listBreakages<BreakageEnvironment, Options>({
  everywhere: {
    'the rules lead one Pod to another': ({ farPod, ownPod }) => misled(farPod, ownPod),
    "the rules lead one Pod to another on client-b's node": {
      far: true,
      break: ({ farPod, ownPod }) => misled(farPod, ownPod),
    },
    'requests to web are dropped': closed,
  },
  zone: {
    'the rules of the node still lead to the other zone': ({ farPod, zonePod }) =>
      misled(zonePod, farPod),
    "the rules of client-b's node still lead to the other zone": {
      far: true,
      break: ({ farPod, zonePod }) => misled(farPod, zonePod),
    },
    'requests of client-b are dropped': { far: true, break: closed },
  },
  fallback: {
    'requests of client-b are dropped': { far: true, break: closed },
    "client-b's node has lost an endpoint": {
      far: true,
      break: deleteRules('nat', '-A KUBE-SEP-.*-m tcp -j DNAT --to-destination 10.244.1'),
    },
  },
  local: {
    "client-b's node refuses instead of dropping": {
      far: true,
      break: editTable(
        'filter',
        's/(-A KUBE-SERVICES .*has no local endpoints.*-j) DROP/\\1 REJECT/',
      ),
    },
    'the rule that drops is deleted': {
      far: true,
      break: deleteRules('filter', '-A KUBE-SERVICES .*has no local endpoints'),
    },
    'requests to web are dropped where a Pod is': closed,
  },
  'same-node': {
    'the rules lead to another node of the zone': () =>
      editNat('s/(-j DNAT --to-destination) 10.244.1.[0-9]+:80/\\1 10.244.0.9:80/'),
    'requests of client-b are dropped': { far: true, break: closed },
  },
  dns: {
    'the counting rule is gone': deleteRules('raw', '-A PREROUTING .*lab-11-dns'),
    'it counts the packets of another Pod': ({ client }) =>
      editTable('raw', `s/-A PREROUTING -s ${client}.32/-A PREROUTING -s 10.244.9.9\\/32/`),
    'a Pod of kube-dns is left out': editNat('/-A KUBE-SVC-.*kube-dns:dns -> .*--probability/d'),
    'lookups are dropped': 'iptables -I FORWARD -p udp --dport 53 -j DROP',
  },
  places: {
    'the rule before the translation is gone': deleteRules(
      'mangle',
      '-A PREROUTING .*lab-11-count',
    ),
    'the rule about the original destination is gone': deleteRules(
      'filter',
      '-A FORWARD .*ctorigdst .*lab-11-count',
    ),
    'the rule about Pods is gone': deleteRules(
      'filter',
      '-A FORWARD .*-d 10.244.0.0.16 .*lab-11-count',
    ),
    'requests to web are stopped': closed,
  },
  whole: {
    'a rule that only counts is forgotten': {
      far: true,
      break: ({ web }) => `iptables -I FORWARD -d ${web} -m comment --comment lab-11-count`,
    },
    'a rule of web is missing': {
      far: true,
      break: ({ web }) => editNat(`/-A KUBE-SERVICES -d ${web}.32 /d`),
    },
  },
})

/** Answers that are wrong, by question. */
export const wrongAnswers: Record<string, string> = {
  zone: '1/3',
  local: 'REJECT',
  'same-node': 'any-zone',
  dns: '10.96.0.10',
}
