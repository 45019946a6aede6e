import type { GuestWork } from './guest-work.ts'
import { interfaceName, type NodePlan, podGateway } from './node-plan.ts'

/** A Pod's network namespace and its way to the node. */
export interface PodLink {
  /** Name of the Pod's network namespace, as a CNI runtime would name it. */
  netns: string
  /** The node's end of the veth pair. */
  hostInterface: string
  address: string
  node: NodePlan
}

/** The link of a Pod, by its uid. */
export function podLink(uid: string, address: string, node: NodePlan): PodLink {
  return { netns: `cni-${uid}`, hostInterface: interfaceName('veth', uid), address, node }
}

/**
 * A namespace joined to the node as kind's CNI configuration does it (the ptp plugin): no bridge, one host route a Pod, and
 * in the Pod even neighbours of the same range are reached through the node, so that every packet passes its netfilter.
 */
export function attachWork({ netns, hostInterface, address, node }: PodLink): GuestWork {
  const gateway = podGateway(node.podCIDR)
  return {
    links: [
      `netns add ${netns}`,
      `link add ${hostInterface} netns ${node.name} type veth peer name eth0 netns ${netns}`,
    ],
    inside: [
      {
        netns: node.name,
        lines: [
          `address add ${gateway}/32 dev ${hostInterface}`,
          `link set ${hostInterface} up`,
          `route add ${address}/32 dev ${hostInterface} scope host`,
        ],
      },
      {
        netns,
        lines: [
          'link set lo up',
          `address add ${address}/24 broadcast + dev eth0 noprefixroute`,
          'link set eth0 up',
          `route add ${gateway}/32 dev eth0 scope link src ${address}`,
          `route add ${node.podCIDR} via ${gateway} dev eth0 src ${address}`,
          `route add default via ${gateway} dev eth0`,
        ],
      },
    ],
  }
}

/** Takes the link away at once; the namespace goes with its last process. */
export function detachWork({ netns, hostInterface, node }: PodLink): GuestWork {
  return { inside: [{ netns: node.name, lines: [`link delete ${hostInterface}`] }], namespaces: [netns] }
}
