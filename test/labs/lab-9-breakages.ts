// One thing broken on one node while a step of lab 9 is solved and not yet graded: the step must
// fail. Nothing of it concerns the requests of the clients, whose losses the lab counts: kube-dns,
// which they do not ask, has lost something, or is left over.

import { type Breakage, deleteRule, listBreakages } from './breakage.ts'

export interface BreakageEnvironment {
  /** The node that changes first. */
  canary: string
  other: string
}

interface Options {
  /** Made on another node instead of the canary. */
  elsewhere?: boolean
  /** What the failure says of it. */
  shows: RegExp
}
export type Lab9Breakage = Breakage<BreakageEnvironment> & Options

const METRICS = '10.96.0.10:9153'

const lostRule = {
  break: deleteRule('KUBE-SERVICES', 'kube-dns:metrics'),
  shows: /kube-dns:metrics/,
}
const lostVirtualServer = {
  break: `ipvsadm -Sn | grep -- ' ${METRICS} ' >/run/lost; ipvsadm -D -t ${METRICS}`,
  repair: 'ipvsadm -R </run/lost',
  shows: /10\.96\.0\.10:9153/,
}
const lostMember = {
  break: 'ipset del KUBE-CLUSTER-IP 10.96.0.10,tcp:9153',
  repair: 'ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:9153',
  shows: /10\.96\.0\.10,tcp:9153/,
}
const lostAddress = {
  break: 'ip address del 10.96.0.10/32 dev kube-ipvs0',
  repair: 'ip address add 10.96.0.10/32 dev kube-ipvs0',
  shows: /10\.96\.0\.10/,
}

export const breakages = listBreakages<BreakageEnvironment, Options>({
  canary: {
    'the canary has lost a rule of another Service': lostRule,
    'another node has lost a virtual server': { ...lostVirtualServer, elsewhere: true },
    'another node has lost a member of a set': { ...lostMember, elsewhere: true },
    'another node has lost an address of kube-ipvs0': { ...lostAddress, elsewhere: true },
  },
  back: {
    'the node has lost a virtual server when it is back': lostVirtualServer,
    'the node has lost a member of a set when it is back': lostMember,
  },
  forward: {
    'a node has lost a rule of another Service': { ...lostRule, elsewhere: true },
  },
  ended: {
    'a ClusterIP is taken as the source of connections again': {
      break:
        'ip route replace local 10.96.0.10 dev kube-ipvs0 table local proto kernel scope host src 10.96.0.10',
      repair:
        "ip route replace local 10.96.0.10 dev kube-ipvs0 table local proto kernel scope host src $(ip -4 -o route get 192.0.2.1 | sed -n 's/.* src \\([0-9.]*\\).*/\\1/p')",
      shows: /1 ClusterIPs are still taken as the source/,
    },
  },
  clean: {
    'a virtual server is left': {
      break: `ipvsadm -A -t ${METRICS} -s rr`,
      repair: 'ipvsadm -C',
      shows: /virtual server/,
    },
    'an address of kube-ipvs0 is left on another node': {
      elsewhere: true,
      break: 'ip link add kube-ipvs0 type dummy; ip address add 10.96.0.10/32 dev kube-ipvs0',
      repair: 'ip link del kube-ipvs0',
      shows: /kube-ipvs0/,
    },
    'a set is left': {
      break: 'ipset create KUBE-CLUSTER-IP hash:ip,port',
      repair: 'ipset destroy KUBE-CLUSTER-IP',
      shows: /1 ipset/,
    },
    'a node has lost a rule of another Service': lostRule,
  },
  cleanup: {
    'another program has removed its sets of IPv6': {
      break:
        'ipset save | grep KUBE-6- >/run/six; for S in $(ipset list -name | grep KUBE-6-); do ipset destroy $S; done',
      repair: 'ipset restore </run/six; rm /run/six',
      shows: /KUBE-6-\S+ is gone/,
    },
    'the node has a virtual server again': {
      break: `ipvsadm -A -t ${METRICS} -s rr`,
      repair: 'ipvsadm -C',
      shows: /1 virtual server/,
    },
    'the node has kube-ipvs0 again': {
      break: 'ip link add kube-ipvs0 type dummy; ip address add 10.96.0.10/32 dev kube-ipvs0',
      repair: 'ip link del kube-ipvs0',
      shows: /kube-ipvs0/,
    },
  },
})
