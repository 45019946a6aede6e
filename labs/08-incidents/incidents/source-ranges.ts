import type { Incident } from '../../../course/incident/incident.ts'
import { complaint } from '../../../course/incident/incident-context.ts'
import { factOf } from '../../../course/incident/scene.ts'
import { OUTSIDE, printOutsideAddresses, readOutsideAddresses } from '../../../host/outside.ts'
import { waitFor } from '../../../host/wait.ts'

const NAME = 'shop-lb'
const namespace = 'default'
const ranges = (...loadBalancerSourceRanges: string[]) => ({ spec: { loadBalancerSourceRanges } })

export const sourceRanges: Incident = {
  id: 'source-ranges',
  cause: 'the address of the client is not among those that the Service allows',
  mode: 'iptables',
  needs: ['outside'],
  report: ({ facts }) =>
    `Our warehouse (${facts.warehouse}) can no longer reach the shop at its public address ${facts.address}. Note that the branch next to it (${facts.branch}) must stay blocked: it is no longer ours.`,
  hints: [
    'From inside the cluster the shop works. The packet reaches a node; which chain stops it there?',
    'Read the chains that begin with KUBE-FW- and the chain KUBE-PROXY-FIREWALL, with counters, on a node.',
    'Which field of the Service shop-lb lists the allowed clients? `make exec NODE=outside CMD="ip address"` shows the addresses of the clients outside.',
  ],
  async break(actions) {
    const { facts } = actions.scene
    const { own, other = '' } = readOutsideAddresses(await actions.onNode(OUTSIDE, printOutsideAddresses))
    Object.assign(facts, { warehouse: own, branch: other })
    const spec = {
      ...{ type: 'LoadBalancer', selector: { app: 'shop' }, ports: [{ port: 80, targetPort: 'web' }] },
      ...ranges('198.51.100.0/24').spec,
    }
    const body = { metadata: { name: NAME, labels: { lab: 'incidents' } }, spec }
    await actions.client.core.createNamespacedService({ namespace, body })
    facts.address = await waitFor('an address of the load balancer', 60_000, async () => {
      const { status } = await actions.client.core.readNamespacedService({ namespace, name: NAME })
      return status?.loadBalancer?.ingress?.[0]?.ip
    })
  },
  async symptom(look) {
    const url = `http://${factOf(look.scene, 'address')}/`
    const warehouse = factOf(look.scene, 'warehouse')
    const command = `make exec NODE=outside CMD='curl -sS --max-time 2 --interface ${warehouse} ${url}'`
    return complaint(await look.fromOutside(warehouse, url), command, 'an answer for the warehouse')
  },
  async causeLeft(look) {
    const { facts } = look.scene
    if ((look.service(NAME)?.loadBalancerSourceRanges ?? []).length === 0)
      return 'the Service shop-lb allows all clients, including the branch'
    const url = `http://${facts.address}/`
    if ((await look.fromOutside(factOf(look.scene, 'warehouse'), url)).some(({ status }) => status !== 200))
      return 'the Service shop-lb does not allow the warehouse'
    if (!facts.branch) return undefined
    const branch = await look.fromOutside(facts.branch, url)
    return branch.some(({ status }) => status === 200) ? 'the Service shop-lb allows the branch, too' : undefined
  },
  wrongFixes: [
    {
      what: 'all clients are allowed',
      play: (actions) => actions.patchService(NAME, { spec: { loadBalancerSourceRanges: null } }),
    },
  ],
  fix: {
    commands: ({ facts }) => [
      `kubectl patch service ${NAME} --type merge -p '${JSON.stringify(ranges(`${facts.warehouse}/32`))}'`,
    ],
    play: (actions) => actions.patchService(NAME, ranges(`${factOf(actions.scene, 'warehouse')}/32`)),
  },
  heal: (actions) => actions.bench.delete('Service', NAME),
  debrief: `loadBalancerSourceRanges is a firewall that kube-proxy writes: KUBE-FW-… lets the listed sources through to the Service, and
all others meet DROP in KUBE-PROXY-FIREWALL (in IPVS mode: a set of sources, and KUBE-SOURCE-RANGES-FIREWALL). It matches the
source address that reaches the node, so it only works if nothing in front replaces that address. Clients in the cluster were
not affected, because Pods take a shorter path to the address of the load balancer.`,
}
