// One thing broken on one node while a step of lab 10 is solved and not yet graded: the step must
// fail. The tables of iptables are restored after each.

import { deleteRules, editTable, listBreakages } from './breakage.ts'

export interface BreakageEnvironment {
  /** A ready Pod of shop, and one that is being deleted; its own address where none is. */
  ready: string
  leaving: string
  /** The ClusterIP of shop, and its health check port. */
  shop: string
  healthPort: number
}

interface Options {
  /** Made on the node of the deleted Pod instead of the client's. */
  atLeaving?: boolean
}

const forgotten = ({ ready }: BreakageEnvironment) =>
  deleteRules('nat', `-A KUBE-SVC-.*default.shop -> ${ready}:80`)
const weigh = ({ shop, leaving }: BreakageEnvironment, weight: number) =>
  `ipvsadm -e -t ${shop}:80 -r ${leaving}:80 -m -w ${weight}`
/** A rule that no packet reaches: nothing may be lost while requests are counted. */
const left = () =>
  `chain=$(iptables-save -t nat | sed -n 's/^-A \\(KUBE-SVC-[A-Z0-9]*\\) .*default.shop -> .*/\\1/p' | head -n 1)
iptables -t nat -A "$chain" -j RETURN`
/** An entry as fill-conntrack.pl adds them, which nothing has removed. */
export const LEFT_ENTRY =
  'conntrack -A -p tcp -s 198.51.100.1 -d 203.0.113.1 --sport 1024 --dport 80 --state ESTABLISHED -t 600 -u SEEN_REPLY,ASSURED'

export const breakages = listBreakages<BreakageEnvironment, Options>({
  shop: { 'an endpoint is missing in the rules': forgotten },
  terminating: {
    'the rules lead to the deleted Pod': ({ ready, leaving }) =>
      editTable('nat', `s/(-j DNAT --to-destination) ${ready}:80/\\1 ${leaving}:80/`),
  },
  local: {
    'connections from outside are not marked': () =>
      deleteRules('nat', '-A KUBE-EXT-.*default/shop'),
    'the health check port does not answer': {
      atLeaving: true,
      break: ({ healthPort }) => `iptables -I INPUT -p tcp --dport ${healthPort} -j REJECT`,
    },
  },
  last: {
    'the rules leave out a Pod that still serves': ({ leaving }) =>
      deleteRules('nat', `-A KUBE-SVC-.*default.shop -> ${leaving}:80`),
  },
  careful: { 'an endpoint is missing in the rules': forgotten },
  affinity: {
    'a rule that remembers is missing': ({ ready }) =>
      deleteRules('nat', `-A KUBE-SVC-.*default.shop -> ${ready}:80.* --rcheck`),
  },
  udp: {
    'the Service over UDP is not translated': () =>
      deleteRules('nat', '-A KUBE-SERVICES .*default.quotes'),
  },
  lossless: { 'a rule is left behind the endpoints': left },
  weight: {
    'the deleted Pod is chosen like any other': {
      break: (environment) => weigh(environment, 1),
      repair: (environment) => weigh(environment, 0),
    },
  },
  invalid: {
    'a rule accepts INVALID packets': () =>
      'iptables -I FORWARD -m conntrack --ctstate INVALID -j ACCEPT',
    'the rule that counts them is missing': () =>
      deleteRules('filter', '-A FORWARD .*lab-10-invalid'),
    'the rule that drops them is missing': () =>
      deleteRules('filter', '-A KUBE-FORWARD .*--ctstate INVALID'),
  },
  full: {
    'an endpoint is missing in the rules': forgotten,
    'the table still has entries of the program': {
      break: () => LEFT_ENTRY,
      repair: () => 'conntrack -D -d 203.0.113.1',
    },
  },
  incident: { 'an endpoint is missing in the rules of its shop': forgotten },
})
