// What lab 4 predicts and asks beside its states, with the typical wrong answers.

import { HOOKS } from '../../dataplane/trace/step.ts'
import type { CheckContext, Truth } from '../../grading/check-context.ts'
import { onNode } from '../../grading/failure.ts'
import { LOOK_AT_PROBES } from '../../grading/packet-counters.ts'
import { stateOf } from '../../grading/snapshot.ts'
import { lvsNodes, REAL_PORT, SHARED_VIP, VIP, VIPS } from './lvs-nodes.ts'
import { countedByProbes } from './virtual-server.ts'

const LIST_CONNECTIONS = 'ipvsadm -Lnc'

/**
 * Predict: what the client sees before anything brings the replies back through the director. The
 * real servers have the client on their own link, so their replies never pass the director; the
 * step's own repair hides it afterwards.
 */
export async function firstRequest(context: CheckContext): Promise<Truth> {
  const { director } = await lvsNodes(context)
  return {
    accepts: ['silence'],
    inspect: onNode(director.name, LIST_CONNECTIONS),
    wrong: [
      {
        when: 'answer',
        because:
          'The real server answers, but to the client directly, from its own address. The client has a connection to the virtual address and drops a reply from any other.',
      },
      {
        when: 'refused',
        because:
          'A refusal would need a machine that has the address and no listener. IPVS takes the packet and sends it on, as it should; only the way back is missing.',
      },
    ],
    because:
      'The request arrives at a real server, and the reply comes from an address that the client has not contacted.',
  }
}

/** Question: where the reply came from that the client did not expect. */
export async function unexpectedSource(context: CheckContext): Promise<Truth> {
  const { director, directorAddress, realServers } = await lvsNodes(context)
  return {
    accepts: realServers.map(({ address }) => address),
    inspect: onNode(director.name, LIST_CONNECTIONS),
    wrong: [
      {
        when: VIP,
        because:
          'From that address the client would have accepted the reply. It has it only when the reply passes the director, which translates it back.',
      },
      {
        when: directorAddress,
        because:
          'The director has sent no reply: it saw the request only. Which machine did it send the request to?',
      },
    ],
    because:
      'A real server replies from its own address. Only the director can translate that back into the virtual one.',
  }
}

/** Predict: the hooks that a request passes on the director, by the learner's probes. */
export async function countingHooks(context: CheckContext): Promise<Truth> {
  const { director } = await lvsNodes(context)
  const counts = countedByProbes(director)
  return {
    accepts: [HOOKS.filter((hook) => counts[hook]).join(', ')],
    inspect: onNode(director.name, LOOK_AT_PROBES),
    wrong: [
      {
        when: (answer) => answer.includes('FORWARD'),
        because:
          'A packet is forwarded if it is addressed to another machine when it arrives. This one is addressed to the director, so the routing decision leads to INPUT.',
      },
      {
        when: (answer) => !answer.includes('OUTPUT'),
        because:
          'What IPVS sends on is a packet of the director itself to the kernel. Since Linux 2.6 it leaves through LOCAL_OUT, where OUTPUT counts it.',
      },
      {
        when: (answer) => !answer.includes('INPUT'),
        because:
          'IPVS is hooked into LOCAL_IN, after the rules of INPUT: they see the packet first.',
      },
    ],
    because:
      'In at the front, out at the back: PREROUTING and INPUT, then, sent by IPVS, OUTPUT and POSTROUTING.',
  }
}

const ARRIVING = 'tcpdump -nn -i eth0 -c 1 tcp dst port'

/** Predict: the destination of a request when it arrives at the first real server, with NAT. */
export async function destinationWithNat(context: CheckContext): Promise<Truth> {
  const { director, realServers } = await lvsNodes(context)
  const [first, second] = realServers
  const key = `${VIP}:${REAL_PORT.masq}`
  const servers = stateOf(director).virtualServers.find(
    ({ address, port }) => `${address}:${port}` === key,
  )?.realServers
  const arrives = servers?.find(({ address }) => address === first?.address)?.address
  return {
    accepts: [arrives ?? first?.address ?? ''],
    inspect: onNode(first?.node ?? '', `${ARRIVING} ${REAL_PORT.masq}`),
    wrong: [
      {
        when: VIP,
        because:
          'That is the destination of the packet when it arrives at the director. NAT replaces it: the real server does not have the virtual address and would not accept the packet.',
      },
      { when: second?.address ?? '', because: 'That is the other real server.' },
    ],
    because: 'NAT writes the address of the real server into the packet.',
  }
}

/** Predict: the same with direct routing. */
export async function destinationWithRouting(context: CheckContext): Promise<Truth> {
  const { realServers } = await lvsNodes(context)
  const [first] = realServers
  return {
    accepts: [SHARED_VIP],
    inspect: onNode(first?.node ?? '', `${ARRIVING} ${REAL_PORT.route}`),
    wrong: realServers.map(({ address }) => ({
      when: address,
      because:
        'So it is with NAT. Direct routing changes nothing in the packet; the director only chooses to whom it sends the frame.',
    })),
    because: 'The packet is unchanged. That is why the real servers need the virtual address, too.',
  }
}

/** The length of an IPv4 header without options (RFC 2003: the outer header of IP in IP). */
const IP_HEADER_BYTES = 20

/** Predict: how much longer a packet is in a tunnel than with direct routing. */
export async function tunnelOverhead(context: CheckContext): Promise<Truth> {
  const { realServers } = await lvsNodes(context)
  return {
    accepts: [`${IP_HEADER_BYTES}`],
    inspect: onNode(realServers[0]?.node ?? '', 'tcpdump -nn -e -i eth0 -c 1 ip proto 4'),
    wrong: [
      {
        when: '14',
        because:
          'That is the header of an Ethernet frame, which every packet on this link has, in both methods.',
      },
      {
        when: '0',
        because:
          'The packet of the client is unchanged, but it travels inside another one, with a header of its own.',
      },
      {
        when: '40',
        because: 'Two IP headers are 40 bytes, and one of them the packet has anyway.',
      },
    ],
    because: 'One more IPv4 header. A tunnel therefore needs a smaller MTU, or larger frames.',
  }
}

/** Predict: how many virtual servers of the learner's kube-proxy leaves alone. */
export async function sparedServers(context: CheckContext): Promise<Truth> {
  const { director } = await lvsNodes(context)
  const own = stateOf(director).virtualServers.filter(
    ({ protocol, address }) => protocol === 'TCP' && VIPS.includes(address),
  )
  return {
    accepts: [`${own.length}`],
    inspect: onNode(director.name, 'ipvsadm -Ln'),
    wrong: [
      {
        when: '0',
        because:
          'That would be right without excludeCIDRs: kube-proxy deletes virtual servers that belong to no Service at its next sync.',
      },
    ],
    because: 'kube-proxy leaves every virtual server alone whose address is in an excluded range.',
  }
}
