// Lab 11: a lookup is a request to a Service. A rule of the learner counts its packets.

import * as z from 'zod'
import type { Rule } from '../../dataplane/iptables-save.ts'
import type { Service } from '../../dataplane/objects.ts'
import { commentOf, targetOf } from '../../dataplane/rule.ts'
import { tracePacket } from '../../dataplane/trace.ts'
import { type CheckContext, type EvidenceCheck, onceSeen } from '../../grading/check-context.ts'
import { WEB_NAMESPACE } from '../../grading/expect-object.ts'
import {
  expectFound,
  expectOnNode,
  expectThat,
  NotApplicable,
  onNode,
  Trouble,
} from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { packetsOn } from '../../grading/packet-counters.ts'
import type { Truth } from '../../grading/question.ts'
import { nodeAddressOf, objectsOf, stateOf } from '../../grading/snapshot.ts'
import { expectWithin } from '../../grading/traffic.ts'
import { expectServiceChains } from '../01-iptables/service-chains.ts'
import { type ZoneClient, zoneClients } from './zone-clients.ts'

const COMMENT = 'lab-11-dns'
/**
 * It has four dots, fewer than ndots:5 asks for, so the suffixes of the search list are tried
 * first.
 */
const NAME = 'kubernetes.default.svc.cluster.local'
const PORT = 53
const READ_COUNTER = 'iptables -t raw -nvL PREROUTING'
const ATTEMPTS = 3

const NOTE = 'lookup-packets'
const lookupNote = z.object({
  /** The packets of one lookup, without and with a dot at the end of the name. */
  full: z.number(),
  withDot: z.number(),
  /** The counter before and after the grader's lookups. */
  before: z.number(),
  after: z.number(),
})

interface Dns {
  service: Service
  address: string
  near: ZoneClient
}

/** The Service kube-dns, and the client that asks it. */
function dnsOf(context: CheckContext): Dns {
  const { near } = zoneClients(context)
  const service = objectsOf(context.snapshot).services.find(
    ({ namespace, name }) => namespace === 'kube-system' && name === 'kube-dns',
  )
  const address = service?.clusterIPs.find((ip) => !ip.includes(':'))
  expectThat(service && address, {
    inspect: 'kubectl -n kube-system get service kube-dns',
    expected: 'the Service kube-dns with a ClusterIP',
    actual: 'none',
  })
  return { service, address, near }
}

/** Addresses of the ready Pods of kube-dns. */
const dnsPods = ({ snapshot }: CheckContext): string[] =>
  objectsOf(snapshot)
    .endpointSlices.filter(
      ({ namespace, serviceName, addressType }) =>
        namespace === 'kube-system' && serviceName === 'kube-dns' && addressType === 'IPv4',
    )
    .flatMap(({ endpoints }) => endpoints)
    .filter(({ ready, terminating }) => ready && !terminating)
    .flatMap(({ addresses }) => addresses)

/** Where the rules of the client's node lead its lookup, and with which source. */
const traceLookup = ({ near: { node, client }, address }: Dns) =>
  tracePacket(
    stateOf(node),
    {
      from: 'pod',
      source: client.address,
      destination: address,
      port: PORT,
      protocol: 'udp',
    },
    { matchingOnly: true },
  )

const isCounter = ({ spec }: Pick<Rule, 'spec'>) =>
  commentOf(spec) === COMMENT && targetOf(spec) === undefined

/**
 * The learner's counting rule, which every packet of a lookup passes: raw PREROUTING, before
 * connection tracking.
 */
function expectCounter({ near: { node, client }, address }: Dns): void {
  const rule = stateOf(node).iptables.get('raw')?.get('PREROUTING')?.rules.find(isCounter)
  const wanted = [`-s ${client.address}/32`, `-d ${address}/32`, '-p udp', `--dport ${PORT}`]
  const expected = `a rule in raw PREROUTING that counts UDP packets of ${client.address} to ${address}:${PORT}, with the comment ${COMMENT}`
  const { spec } = expectFound(rule, {
    node: node.name,
    inspect: onNode(node.name, READ_COUNTER),
    expected,
    next: onNode(
      node.name,
      `iptables -t raw -I PREROUTING -s ${client.address} -d ${address} -p udp --dport ${PORT} -m comment --comment ${COMMENT}`,
    ),
  })
  expectOnNode(
    node.name,
    READ_COUNTER,
    wanted.every((part) => `${spec} `.includes(`${part} `)),
    { expected, actual: `-A PREROUTING ${spec}`, hint: 'Delete it with -D, and add it again.' },
  )
}

/**
 * kube-dns is followed by the same rules as web, for UDP, and the learner's rule counts what one
 * lookup sends.
 */
export const lookupsAreCounted = onceSeen('lookups', async (context: CheckContext) => {
  const dns = dnsOf(context)
  const { name } = dns.near.node
  expectServiceChains([dns.near.node], dns.service, {
    chains: ['nat KUBE-SERVICES'],
    inspect: 'iptables -t nat -S | grep kube-dns',
    expected: 'the chains of kube-dns, one for each of its ports',
  })
  const { outcomes } = traceLookup(dns)
  const reached = [...new Set(outcomes.map(({ to }) => to))].sort()
  const pods = dnsPods(context)
    .map((address) => `${address}:${PORT}`)
    .sort()
  expectOnNode(name, 'iptables -t nat -S | grep kube-dns', reached.join() === pods.join(), {
    expected: `a lookup of the client at ${pods.join(' or ') || 'a Pod of kube-dns'}`,
    actual: reached.join(' or ') || 'it is stopped',
  })
  expectCounter(dns)
  if (context.live) await measureLookups(context, context.live, dns)
  return {}
})

/**
 * Counts a lookup without and one with a dot at the end by the learner's own rule, and keeps both.
 */
async function measureLookups(
  { notes, show }: CheckContext,
  live: LiveCluster,
  { near: { node } }: Dns,
): Promise<void> {
  const measured = notes.read(NOTE, lookupNote) ?? (await countLookups(live, node.name))
  notes.keep(NOTE, measured)
  show([
    `packets to kube-dns for one lookup of ${NAME}: ${measured.full}`,
    `with a dot at the end of the name: ${measured.withDot}`,
  ])
}

async function countLookups(live: LiveCluster, node: string): Promise<z.infer<typeof lookupNote>> {
  const place = { namespace: WEB_NAMESPACE, name: 'client' }
  const before = await readCounter(live, node)
  const found = { full: 0, withDot: 0, before, after: before }
  const count = async (name: string) => {
    await live.inPod(place, `getent ahosts ${name} || true`)
    const packets = await readCounter(live, node)
    const sent = packets - found.after
    found.after = packets
    return sent
  }
  const measure = async () => {
    found.full = await count(NAME)
    found.withDot = await count(`${NAME}.`)
    return found.withDot > 0 && found.full > found.withDot
      ? undefined
      : { actual: `${found.full} packets without the dot and ${found.withDot} with it` }
  }
  await expectWithin(ATTEMPTS, measure, {
    node,
    inspect: onNode(node, READ_COUNTER),
    expected:
      'more packets for a name that is tried with each suffix first than for a complete one',
  })
  return found
}

async function readCounter(live: LiveCluster, node: string): Promise<number> {
  const packets = await packetsOn(live, node, ['raw', 'PREROUTING'], (spec) => isCounter({ spec }))
  if (packets === undefined) throw new Trouble(`the counting rule on ${node} is gone`)
  return packets
}

/** The learner's own lookup: on the counter before the grader's, or after them. */
export const ownLookup: EvidenceCheck = async (context) => {
  const { node } = dnsOf(context).near
  const { before, after } = context.notes.read(NOTE, lookupNote) ?? { before: 0, after: 0 }
  const packets = await readCounter(context.live, node.name)
  expectThat(before > 0 || packets > after, {
    node: node.name,
    inspect: onNode(node.name, READ_COUNTER),
    expected: 'packets of a lookup of your own on the counter',
    actual: `${packets} packets, all by the grader`,
    next: `kubectl exec client -- getent ahosts ${NAME}`,
  })
  return { packets }
}

/** Predict: the packets of one lookup, as they were measured. */
export function packetsOfLookup({ notes }: CheckContext): Truth {
  const measured = notes.read(NOTE, lookupNote)
  if (!measured)
    throw new NotApplicable('no lookup was measured on this cluster before the capture was taken')
  const { full, withDot } = measured
  return {
    accepts: [String(full)],
    inspect: 'kubectl exec client -- cat /etc/resolv.conf',
    wrong: [
      {
        when: '1',
        because:
          'Already a complete name takes two packets: the resolver asks for an IPv4 and for an IPv6 address.',
      },
      {
        when: String(withDot),
        because:
          'That would be right for a complete name. Without a dot at its end, one with fewer dots than ndots is tried with each suffix of the search list first.',
      },
      {
        when: String(full / withDot),
        because:
          'That is how many names are tried. For each the resolver asks for an IPv4 and for an IPv6 address.',
      },
    ],
    because: `${full / withDot} names are tried, the complete one last, and each is asked for twice.`,
  }
}

/** Question: the source of the client's lookup at a Pod of kube-dns. */
export function sourceOfLookup(context: CheckContext): Truth {
  const dns = dnsOf(context)
  const { near, address } = dns
  const own = nodeAddressOf(context.snapshot, near.node.name)
  const masqueraded = traceLookup(dns).outcomes.some(({ masquerade }) => masquerade)
  return {
    accepts: [masqueraded ? own : near.client.address],
    inspect: onNode(near.node.name, `conntrack -L -p udp --orig-dst ${address}`),
    wrong: [
      {
        when: own,
        because:
          "A Pod's request to a ClusterIP is not masqueraded. The node's address would appear for a request of the node itself.",
      },
      {
        when: address,
        because:
          'That is the destination of the request, and after the translation back the source of the reply.',
      },
    ],
    because:
      'Only the destination is replaced, so that the log of kube-dns shows which Pod asked. A node-local cache in between would appear as the client instead.',
  }
}
