// Lab 2: what its notes keep of temporary states, which later questions ask for.

import * as z from 'zod'

/** The Services of manifests/crowd.yaml. */
export const EXTRA_SERVICES = 20

/** Keys of the counts without the twenty Services. */
export const BEFORE = { iptables: 'iptables-before-crowd', ipvs: 'ipvs-before-crowd' }
/** Keys of the counts with them. */
export const WITH_EXTRA = { iptables: 'iptables-with-crowd', ipvs: 'ipvs-with-crowd' }
/** Key of the chains that iptables mode left on each node. */
export const LEFT_CHAINS = 'chains-left-by-iptables'

/** The rules and sets for Services on each node, with the number of Service ports at that time. */
export const countNote = z.object({
  ports: z.number(),
  nodes: z
    .record(
      z.string(),
      z.object({
        /** Rules of nat KUBE-SERVICES. */
        rules: z.number(),
        /** Chains of single Services and endpoints. */
        chains: z.number(),
        /** Members of KUBE-CLUSTER-IP. */
        members: z.number(),
      }),
    )
    .refine((nodes) => Object.keys(nodes).length > 0),
})
