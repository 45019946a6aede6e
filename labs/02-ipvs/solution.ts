// The reference solution of lab 2, played by `make solve-2` and, without a terminal, by `make lab-2`.

import type { LabSolution } from '../../course/lab-solution.ts'
import {
  apply,
  expose,
  flush,
  independent,
  mode,
  podsReady,
  readsOnly,
  remove,
  tools,
  typing,
  web,
} from '../../course/typed-commands.ts'

const MANIFESTS = 'labs/02-ipvs/manifests'
const EXTRA_SERVICES = `${MANIFESTS}/crowd.yaml`
const CLIENT = `${MANIFESTS}/client.yaml`
const withExtraServices = { ...apply(EXTRA_SERVICES), cleanup: remove(EXTRA_SERVICES) }

export const solution: LabSolution = {
  steps: {
    web,
    'iptables-list': independent(withExtraServices),
    ipvs: mode('ipvs'),
    leftovers: readsOnly,
    flush,
    'kube-ipvs0': readsOnly,
    tools,
    sets: readsOnly,
    'ipvs-constant': withExtraServices,
    prerouting: readsOnly,
    'virtual-servers': readsOnly,
    'node-port': expose('np', 'NodePort'),
    'pod-to-service': independent(typing(apply(CLIENT), podsReady('client'))),
    scheduler: mode('ipvs', { scheduler: 'lc' }),
    output: readsOnly,
    postrouting: readsOnly,
    masquerade: readsOnly,
    conntrack: readsOnly,
  },

  async leave(bench) {
    await Promise.all([EXTRA_SERVICES, CLIENT].map((file) => bench.remove(file)))
  },
}
