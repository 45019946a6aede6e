// One thing broken while a step of lab 7 is solved and not yet graded: the step must fail. The
// tables of iptables, or kube-proxy's of nf_tables, are restored after each; a repair undoes what
// else was changed.

import { type Breakage, editTable, listBreakages } from './breakage.ts'

export interface BreakageEnvironment {
  /** Node of the client. */
  node: string
  /** Another node, with a Pod of web that answers. */
  other: string
  /** ClusterIP of web. */
  web: string
  /** The endpoint without a listener. */
  deaf: string
  /** One that answers. */
  pod: string
}

interface Options {
  /** Made in kube-proxy's table of nf_tables. */
  nft?: boolean
  /** Made on the other node instead of the client's. */
  elsewhere?: boolean
  /** False if the failure concerns no single node. */
  named?: boolean
}
export type Lab7Breakage = Breakage<BreakageEnvironment> & Options

const editNat = (sed: string) => editTable('nat', sed)

export const breakages = listBreakages<BreakageEnvironment, Options>({
  stage: {
    'no endpoint answers': {
      named: false,
      break: 'iptables -I FORWARD -p tcp --dport 80 -j REJECT',
    },
  },
  fails: {
    'the rule that leads to the deaf Pod is lost on another node': {
      elsewhere: true,
      break: ({ deaf }) => editNat(`/-j DNAT --to-destination ${deaf}:80/d`),
    },
  },
  relay: {
    'no rule leads the Service to a listener on another node': {
      elsewhere: true,
      break: ({ web }) => editNat(`/-A KUBE-PORTALS-CONTAINER -d ${web}.32 /d`),
    },
    'packets of the node itself are led to no listener': {
      elsewhere: true,
      break: editNat('/-A OUTPUT .*KUBE-PORTALS-HOST/d'),
    },
    'a rule of another Service leads to a port without a listener, on another node': {
      elsewhere: true,
      break: editNat('s/(-A KUBE-PORTALS-CONTAINER -d 10.96.0.1.32 .*--to-ports) [0-9]+/\\1 9/'),
    },
    'a rule leads to a port without a listener': ({ web }) =>
      editNat(`s/(-A KUBE-PORTALS-CONTAINER -d ${web}.32 .*--to-ports) [0-9]+/\\1 9/`),
  },
  retried: {
    'kube-proxy no longer reaches one of the two Pods': ({ pod }) =>
      `iptables -I OUTPUT -p tcp -d ${pod} --dport 80 -j REJECT --reject-with tcp-reset`,
  },
  back: {
    'a chain of userspace mode is left on another node': {
      elsewhere: true,
      break: 'iptables -t nat -N KUBE-PORTALS-HOST',
      repair: 'iptables -t nat -X KUBE-PORTALS-HOST 2>/dev/null; true',
    },
    'a rule of iptables mode is lost on another node': {
      elsewhere: true,
      break: ({ web }) => editNat(`/-A KUBE-SERVICES -d ${web}.32 /d`),
    },
  },
  probed: {
    'a rule leads to the Pod that is not ready': {
      elsewhere: true,
      break: ({ deaf, pod }) => editNat(`s/(-j DNAT --to-destination) ${pod}:80/\\1 ${deaf}:80/`),
    },
  },
  'nft-tables': {
    'the table has lost a rule of the chain that all traffic passes, on another node': {
      nft: true,
      elsewhere: true,
      break: 'nft flush chain ip kube-proxy masquerading',
    },
  },
  'nft-maps': {
    'an address of a Service is missing in the set on another node': {
      nft: true,
      elsewhere: true,
      break: ({ web }) => `nft delete element ip kube-proxy cluster-ips '{ ${web} }'`,
    },
    'the map has lost the Service on another node': {
      nft: true,
      elsewhere: true,
      break: ({ web }) => `nft delete element ip kube-proxy service-ips '{ ${web} . tcp . 80 }'`,
    },
    'a rule of the chain of web leads to another port': {
      nft: true,
      break: ({ pod }) =>
        `nft list table ip kube-proxy | sed 's/dnat to ${pod}:80/dnat to ${pod}:81/' >/run/wrong; nft delete table ip kube-proxy; nft -f /run/wrong`,
    },
  },
  'nft-alone': {
    'a chain of iptables mode is left on another node': {
      elsewhere: true,
      break: 'iptables -t nat -N KUBE-SERVICES',
      repair: 'iptables -t nat -X KUBE-SERVICES 2>/dev/null; true',
    },
  },
  'nft-back': {
    'a table of nftables mode is left on another node': {
      elsewhere: true,
      break: 'nft add table ip kube-proxy',
      repair: 'nft delete table ip kube-proxy',
    },
  },
})

/** Answers that are wrong, by question. */
export const wrongAnswers: Record<string, string> = {
  share: '1/2',
  relay: '80',
  'seen-client': '10.96.0.1',
  'choose-retry': '300 0 0',
  'choose-list': '1',
  'choose-scheduler': 'ipvs-rr',
  'choose-here': 'userspace',
  'choose-default': 'ipvs',
  'ipvs-ends': '1.35',
}
