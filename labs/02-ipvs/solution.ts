// The reference solution of lab 2, played by `make solve-2` and, without a terminal, by `make lab-2`.

import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'

const MANIFEST = 'labs/02-ipvs/manifests/crowd.yaml'
const CLIENT = 'labs/02-ipvs/manifests/client.yaml'

const deleteExtraServices = {
  commands: [`kubectl delete -f ${MANIFEST}`],
  play: (bench: LabBench) => bench.remove(MANIFEST),
}
const addExtraServices = {
  commands: [`kubectl apply -f ${MANIFEST}`],
  play: (bench: LabBench) => bench.apply(MANIFEST),
}
const readsOnly = { commands: [] }

export const solution: LabSolution = {
  steps: {
    web: { commands: ['make web'], play: (bench) => bench.web() },
    'iptables-list': { ...addExtraServices, independent: true, cleanup: deleteExtraServices },
    ipvs: { commands: ['make ipvs'], play: (bench) => bench.mode('ipvs') },
    leftovers: readsOnly,
    flush: { commands: ['make flush-nat'], play: (bench) => bench.flush() },
    'kube-ipvs0': readsOnly,
    tools: { commands: ['make tools'], play: (bench) => bench.tools() },
    sets: readsOnly,
    'ipvs-constant': { ...addExtraServices, cleanup: deleteExtraServices },
    prerouting: readsOnly,
    'virtual-servers': readsOnly,
    'node-port': {
      commands: ['kubectl expose deployment web --name web-np --type NodePort --port 80'],
      play: (bench) => bench.expose('np', 'NodePort'),
    },
    'pod-to-service': {
      independent: true,
      commands: [`kubectl apply -f ${CLIENT}`, 'kubectl wait --for=condition=Ready pod/client --timeout=90s'],
      play: async (bench) => {
        await bench.apply(CLIENT)
        await bench.podReady('client')
      },
    },
    scheduler: {
      commands: ['make ipvs SCHEDULER=lc'],
      play: (bench) => bench.mode('ipvs', { scheduler: 'lc' }),
    },
    output: readsOnly,
    postrouting: readsOnly,
    masquerade: readsOnly,
    conntrack: readsOnly,
  },

  leave: (bench) => bench.remove(MANIFEST),

  async reset(bench) {
    await Promise.all([
      solution.leave?.(bench),
      bench.delete('Pod', 'client'),
      bench.deleteLabelled('app=web'),
      bench.delete('ConfigMap', 'lab-2'),
    ])
    await bench.startIn('iptables')
  },
}
