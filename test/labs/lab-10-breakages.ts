// One thing broken on one node while a step of lab 10 is solved and not yet graded: the step must fail. The tables of iptables are
// restored after each; a repair undoes what else was changed.

import { type Breakage, deleteRules, editTable, listBreakages } from './breakage.ts'

export interface BreakageEnvironment {
  /** ClusterIP of shop. */
  shop: string
  /** A ready Pod of shop, and one that is being deleted; its own address where none is. */
  ready: string
  leaving: string
}

/** Broken on the node of the deleted Pod instead of the client's. */
interface Options {
  onLeaving?: boolean
}
export type Lab10Breakage = Breakage<BreakageEnvironment> & Options

const forgotten = ({ ready }: BreakageEnvironment) =>
  deleteRules('nat', `-A KUBE-SVC-.*default.shop -> ${ready}:80`)
const misled = ({ ready }: BreakageEnvironment) =>
  editTable('nat', `s/(-j DNAT --to-destination) ${ready}:80/\\1 10.244.9.9:80/`)
const weighs = (weight: number) => (environment: BreakageEnvironment) =>
  `ipvsadm -e -t ${environment.shop}:80 -r ${environment.leaving}:80 -m -w ${weight}`

export const breakages = listBreakages<BreakageEnvironment, Options>({
  shop: { 'an endpoint is missing in the rules': forgotten },
  naive: { 'the rules lead a Pod to nowhere': misled },
  pinned: { 'an endpoint is missing in the rules': forgotten },
  terminating: {
    'the rules lead to the deleted Pod': ({ ready, leaving }) =>
      editTable('nat', `s/(-j DNAT --to-destination) ${ready}:80/\\1 ${leaving}:80/`),
  },
  local: {
    'the node port does not lead to the deleted Pod': {
      onLeaving: true,
      break: deleteRules('nat', '-A KUBE-SVL-.*default.shop -> '),
    },
  },
  last: {
    'the rules leave out a Pod that still serves': ({ leaving }) =>
      deleteRules('nat', `-A KUBE-SVC-.*default.shop -> ${leaving}:80`),
  },
  weight: {
    'the deleted Pod has a weight': { break: weighs(1), repair: weighs(0) },
    'the Pod that is ready has no weight': {
      break: ({ shop, ready }) => `ipvsadm -d -t ${shop}:80 -r ${ready}:80`,
      repair: ({ shop, ready }) => `ipvsadm -a -t ${shop}:80 -r ${ready}:80 -m -w 1`,
    },
  },
  careful: { 'an endpoint is missing in the rules': forgotten },
  lossless: { 'the rules lead a Pod to nowhere': misled },
})
