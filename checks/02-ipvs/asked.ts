// Lab 2: what is predicted about counts of rules, sets, addresses and virtual servers, as the nodes
// show them.

import * as z from 'zod'
import type { CheckContext, Question, Truth } from '../../grading/check-context.ts'
import { findService, type WebService, webService } from '../../grading/expect-object.ts'
import { expectFound, expectThat, onNode } from '../../grading/failure.ts'
import { type NodeView, objectsOf, type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { variantIn } from '../../grading/variant.ts'
import { BEFORE, countNote, EXTRA_SERVICES, LEFT_CHAINS, WITH_EXTRA } from './notes.ts'
import { worker } from './worker.ts'

/**
 * The rules that the twenty Services add to KUBE-SERVICES of a node in a mode. Other Services may
 * have come since the first count, so that the growth is divided by all new Service ports.
 */
function addedIn(mode: keyof typeof BEFORE, { notes, nodes }: CheckContext): number {
  const inspect = 'kubectl get configmap lab-2 -o yaml'
  const counted = (key: string) =>
    expectFound(notes.read(key, countNote), {
      inspect,
      expected: `the counts in the note "${key}"`,
    })
  const [before, after] = [counted(BEFORE[mode]), counted(WITH_EXTRA[mode])]
  const name = nodes.find((node) => before.nodes[node.name] && after.nodes[node.name])?.name ?? ''
  const rules = (after.nodes[name]?.rules ?? 0) - (before.nodes[name]?.rules ?? 0)
  const ports = after.ports - before.ports
  return ports > 0 ? Math.round((rules / ports) * EXTRA_SERVICES) : rules
}

const COUNT_RULES = 'iptables -t nat -S KUBE-SERVICES | grep -c "^-A"'

/** How many rules twenty Services add in iptables mode. */
export const rulesOfExtraServices: Question = (context): Truth => {
  const added = addedIn('iptables', context)
  return {
    accepts: [String(added)],
    inspect: onNode(worker(context).name, COUNT_RULES),
    wrong: [
      {
        when: '0',
        because:
          'That is what IPVS mode does. In iptables mode a rule is the only place for a Service.',
      },
      {
        when: '1',
        because:
          'One rule for all of them would need a set to match against, which iptables mode does not use.',
      },
      {
        when: (answer) => Number(answer) > added,
        because:
          'Each Service port also gets chains of its own, with a rule for each endpoint; the list that every new connection walks, KUBE-SERVICES, grows by one rule for each Service port.',
      },
    ],
    because: 'Each Service port is an entry of the list, whatever the number of its endpoints.',
  }
}

/** How many rules the same Services add in IPVS mode. */
export const rulesOfExtraServicesInIpvs: Question = (context): Truth => ({
  accepts: [String(addedIn('ipvs', context))],
  inspect: onNode(worker(context).name, COUNT_RULES),
  wrong: [
    {
      when: (answer) => Number(answer) >= 20,
      because:
        'That was iptables mode. Read the last rule of KUBE-SERVICES: which Services does it name?',
    },
    {
      when: (answer) => Number(answer) > 0,
      because:
        'The rules name a set, and the set has the addresses: a new Service is a new member.',
    },
  ],
  because:
    'The rules match against sets, so that a Service is a member of a set and a virtual server, and no rule.',
})

/** How many chains of Services and endpoints the worker has after the switch. */
export const chainsLeft: Question = (context): Truth => {
  const { name } = worker(context)
  const counts = expectFound(context.notes.read(LEFT_CHAINS, z.record(z.string(), z.number())), {
    inspect: 'kubectl get configmap lab-2 -o yaml',
    expected: `the counts in the note "${LEFT_CHAINS}"`,
  })
  return {
    accepts: [String(counts[name] ?? 0)],
    inspect: onNode(name, 'iptables-save -t nat | grep -cE "^:KUBE-(SVC|SEP)-"'),
    wrong: [
      {
        when: '0',
        because:
          'A kube-proxy writes the rules of its mode and does not remove those of another one; the new process does not know that they were there.',
      },
    ],
    because: 'All of them: kube-proxy stopped using the chains, and nothing else removes them.',
  }
}

/** The ClusterIPs of all Services, of IPv4. */
const clusterIPsIn = (snapshot: Snapshot): string[] =>
  objectsOf(snapshot).services.flatMap(({ clusterIPs }) =>
    clusterIPs.filter((address) => !address.includes(':')).slice(0, 1),
  )

const DEVICE = 'kube-ipvs0'
const addressesOn = (node: NodeView): number =>
  stateOf(node)
    .links.find(({ name }) => name === DEVICE)
    ?.addresses.filter(({ family }) => family === 'inet').length ?? 0

/** The members of the worker's KUBE-CLUSTER-IP. */
const membersOn = (node: NodeView): number =>
  stateOf(node).ipsets.get('KUBE-CLUSTER-IP')?.members.size ?? 0

/** How many addresses kube-ipvs0 has. */
export const addressesOfDevice: Question = (context): Truth => {
  const node = worker(context)
  const ports = membersOn(node)
  return {
    accepts: [String(addressesOn(node))],
    inspect: onNode(node.name, `ip -brief address show ${DEVICE}`),
    wrong: [
      {
        when: (answer) => Number(answer) === ports && ports !== addressesOn(node),
        because:
          'That is the number of Service ports. A Service with three ports has one address, and an interface knows no ports.',
      },
      {
        when: '1',
        because: 'An interface can have many addresses. This one exists only to have them.',
      },
      {
        when: '0',
        because:
          'In iptables mode that was right. IPVS gets only packets that are delivered to the node, so the node must have the addresses.',
      },
    ],
    because: 'One for each ClusterIP in the cluster, on every node.',
  }
}

/** How many members KUBE-CLUSTER-IP has. */
export const membersOfSet: Question = (context): Truth => {
  const node = worker(context)
  return {
    accepts: [String(membersOn(node))],
    inspect: onNode(node.name, 'ipset list KUBE-CLUSTER-IP'),
    wrong: [
      {
        when: (answer) => Number(answer) === clusterIPsIn(context.snapshot).length,
        because:
          'That is the number of addresses. A member is an address with a protocol and a port: look at the three ports of kube-dns.',
      },
    ],
    because: 'One for each Service port: address, protocol and port.',
  }
}

/** How many real servers the worker's virtual server of web has. */
export const realServersOfWeb: Question = (context): Truth => {
  const node = worker(context)
  const { backends } = webService(context.snapshot)
  const count = realServers(node, webService(context.snapshot))
  const own = backends.filter((backend) => backend.node === node.name).length
  return {
    accepts: [String(count)],
    inspect: onNode(node.name, 'ipvsadm -Ln'),
    wrong: [
      {
        when: (answer) => Number(answer) === own && own !== count,
        because:
          'That counts the Pods on this node. Every kube-proxy writes all endpoints: a node sends packets to Pods on any node.',
      },
      {
        when: '0',
        because:
          'A virtual server without real servers refuses or drops; the Service has ready Pods.',
      },
    ],
    because: 'All ready Pods of the Service, on whichever node they run.',
  }
}

function realServers(node: NodeView, { address, port }: WebService): number {
  const server = stateOf(node).virtualServers.find(
    (one) => one.address === address && one.port === port && one.protocol === 'TCP',
  )
  return server?.realServers.length ?? 0
}

/** How many virtual servers the node port has on the worker. */
export const serversOfNodePort: Question = (context): Truth => {
  const node = worker(context)
  const { name } = variantIn(context.snapshot)
  const nodePort = findService(context.snapshot, `${name}-np`)?.ports[0]?.nodePort
  const servers = stateOf(node).virtualServers.filter(({ port }) => port === nodePort)
  expectThat(servers.length > 0, {
    inspect: onNode(node.name, 'ipvsadm -Ln'),
    expected: 'virtual servers for the node port',
    actual: 'none',
  })
  return {
    accepts: [String(servers.length)],
    inspect: onNode(node.name, 'ipvsadm -Ln; ip -4 -brief address'),
    wrong: [
      {
        when: '1',
        because:
          'A virtual server needs an address, and IPVS knows no 0.0.0.0: count the addresses of the node.',
      },
      {
        when: (answer) => Number(answer) > servers.length,
        because:
          'kube-proxy leaves out the loopback addresses and those of kube-ipvs0: node ports are for the addresses by which others reach the node.',
      },
    ],
    because: 'One for each address of the node: its own, and its address in the Pod network.',
  }
}
