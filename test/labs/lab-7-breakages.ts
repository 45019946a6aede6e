// One thing broken while a step of lab 7 is solved and not yet graded: the step must fail.

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

export interface Breakage {
  what: string
  step: string
  /** Made in kube-proxy's table of nf_tables. */
  nft?: boolean
  /** Shell text; the tables of iptables, or kube-proxy's of nf_tables, are put back as they were afterwards. */
  break(environment: BreakageEnvironment): string
  /** What else has to be put back. */
  repair?: string
  /** Made on the other node instead of the client's. */
  elsewhere?: boolean
  /** False where the failure is about no single node. */
  named?: boolean
}

const editNat = (sed: string) => `iptables-save -c -t nat | sed -E '${sed}' | iptables-restore -c -T nat`

export const breakages: Breakage[] = [
  {
    what: 'no endpoint answers',
    step: 'stage',
    named: false,
    break: () => 'iptables -I FORWARD -p tcp --dport 80 -j REJECT',
  },
  {
    what: 'the rule that leads to the deaf Pod is lost on another node',
    step: 'fails',
    elsewhere: true,
    break: ({ deaf }) => editNat(`/-j DNAT --to-destination ${deaf}:80/d`),
  },
  {
    what: 'no rule leads the Service to a listener on another node',
    step: 'relay',
    elsewhere: true,
    break: ({ web }) => editNat(`/-A KUBE-PORTALS-CONTAINER -d ${web}.32 /d`),
  },
  {
    what: 'packets of the node itself are led to no listener',
    step: 'relay',
    elsewhere: true,
    break: () => editNat('/-A OUTPUT .*KUBE-PORTALS-HOST/d'),
  },
  {
    what: 'a rule leads to a port without a listener',
    step: 'relay',
    break: ({ web }) => editNat(`s/(-A KUBE-PORTALS-CONTAINER -d ${web}.32 .*--to-ports) [0-9]+/\\1 9/`),
  },
  {
    what: 'kube-proxy reaches one of the two Pods no more',
    step: 'retried',
    break: ({ pod }) => `iptables -I OUTPUT -p tcp -d ${pod} --dport 80 -j REJECT --reject-with tcp-reset`,
  },
  {
    what: 'a chain of userspace mode is left on another node',
    step: 'back',
    elsewhere: true,
    break: () => 'iptables -t nat -N KUBE-PORTALS-HOST',
    repair: 'iptables -t nat -X KUBE-PORTALS-HOST 2>/dev/null; true',
  },
  {
    what: 'a rule of iptables mode is lost on another node',
    step: 'back',
    elsewhere: true,
    break: ({ web }) => editNat(`/-A KUBE-SERVICES -d ${web}.32 /d`),
  },
  {
    what: 'a rule leads to the Pod that is not ready',
    step: 'probed',
    elsewhere: true,
    break: ({ deaf, pod }) => editNat(`s/(-j DNAT --to-destination) ${pod}:80/\\1 ${deaf}:80/`),
  },
  {
    what: 'the table has lost a rule of the chain that all traffic passes, on another node',
    step: 'nft-tables',
    nft: true,
    elsewhere: true,
    break: () => 'nft flush chain ip kube-proxy masquerading',
  },
  {
    what: 'an address of a Service is missing in the set on another node',
    step: 'nft-maps',
    nft: true,
    elsewhere: true,
    break: ({ web }) => `nft delete element ip kube-proxy cluster-ips '{ ${web} }'`,
  },
  {
    what: 'the map has lost the Service on another node',
    step: 'nft-maps',
    nft: true,
    elsewhere: true,
    break: ({ web }) => `nft delete element ip kube-proxy service-ips '{ ${web} . tcp . 80 }'`,
  },
  {
    what: 'a rule of the chain of web leads to another port',
    step: 'nft-maps',
    nft: true,
    break: ({ pod }) =>
      `nft list table ip kube-proxy | sed 's/dnat to ${pod}:80/dnat to ${pod}:81/' >/run/wrong; nft delete table ip kube-proxy; nft -f /run/wrong`,
  },
  {
    what: 'a chain of iptables mode is left on another node',
    step: 'nft-alone',
    elsewhere: true,
    break: () => 'iptables -t nat -N KUBE-SERVICES',
    repair: 'iptables -t nat -X KUBE-SERVICES 2>/dev/null; true',
  },
  {
    what: 'a table of nftables mode is left on another node',
    step: 'nft-back',
    elsewhere: true,
    break: () => 'nft add table ip kube-proxy',
    repair: 'nft delete table ip kube-proxy',
  },
]

/** Answers that are wrong, by question. */
export const wrongAnswers: Record<string, string> = {
  share: '1/2',
  'seen-client': '10.96.0.1',
  'choose-retry': 'iptables',
  'choose-list': 'ipvs',
  'choose-scheduler': 'nftables',
  'choose-here': 'userspace',
  'choose-default': 'ipvs',
  'ipvs-ends': '1.33',
}
