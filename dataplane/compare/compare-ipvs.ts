import type { Link } from '../ip-addr.ts'
import { isIPv6LinkLocal, printEndpoint } from '../ip-address.ts'
import { printIpvsadmSave, type RealServer, type VirtualServer, virtualServerKey } from '../ipvsadm-save.ts'
import { otherVirtualServers } from '../kube-proxy/mode-ownership.ts'
import type { NodeState } from '../node-state.ts'
import { type CompareOptions, type Finding, IPVS_LINK } from './finding.ts'

/**
 * Compares virtual servers (unordered) with their scheduler, persistence and real servers. An unexpected real server with
 * weight 0 is being terminated gracefully and is not reported; neither is a manually created virtual server that no packet for
 * a Service reaches.
 */
export function compareVirtualServers(expected: NodeState, actual: NodeState, options: CompareOptions): Finding[] {
  const findings: Finding[] = []
  const others = otherVirtualServers(expected, actual)
  const wantedBy = new Map(expected.virtualServers.map((server) => [virtualServerKey(server), server]))
  const foundBy = new Map(actual.virtualServers.map((server) => [virtualServerKey(server), server]))
  for (const key of new Set([...wantedBy.keys(), ...foundBy.keys()])) {
    const where = { virtualServer: key }
    if (options.foreign?.(where)) continue
    const wanted = wantedBy.get(key)
    const found = foundBy.get(key)
    if (wanted && !found) {
      findings.push({ kind: 'missing', where, expected: quote(wanted), text: `virtual server ${key} is missing` })
    } else if (found && !wanted) {
      if (others.has(found)) continue
      const text = `virtual server ${key} is stale: no Service in mode ${options.mode} needs it`
      findings.push({ kind: 'stale', where, actual: quote(found), text })
    } else if (wanted && found) {
      compareServer(key, wanted, found, findings)
    }
  }
  return findings
}

function compareServer(key: string, wanted: VirtualServer, found: VirtualServer, findings: Finding[]): void {
  const where = { virtualServer: key }
  if (!sameService(wanted, found)) {
    const expected = serviceLine(wanted)
    const actual = serviceLine(found)
    findings.push({
      kind: 'wrong',
      where,
      expected,
      actual,
      text: `virtual server ${key} is "${actual}", not "${expected}"`,
    })
  }
  const wantedReals = realServersBy(wanted)
  const foundReals = realServersBy(found)
  for (const [endpoint, real] of wantedReals) {
    const present = foundReals.get(endpoint)
    if (!present) {
      const text = `virtual server ${key}: missing real server ${endpoint}`
      findings.push({ kind: 'missing', where, expected: realLine(wanted, real), text })
    } else if (present.weight !== real.weight || present.forward !== real.forward) {
      const text = `virtual server ${key}: real server ${endpoint} is ${describe(present)}, not ${describe(real)}`
      findings.push({ kind: 'wrong', where, expected: realLine(wanted, real), actual: realLine(found, present), text })
    }
  }
  for (const [endpoint, real] of foundReals) {
    if (wantedReals.has(endpoint) || real.weight === 0) continue
    const text = `virtual server ${key}: stale real server ${endpoint}`
    findings.push({ kind: 'stale', where, actual: realLine(found, real), text })
  }
}

function sameService(wanted: VirtualServer, found: VirtualServer): boolean {
  const flags = new Set(wanted.flags)
  return (
    wanted.scheduler === found.scheduler &&
    wanted.persistent === found.persistent &&
    wanted.netmask === found.netmask &&
    flags.size === found.flags.length &&
    found.flags.every((flag) => flags.has(flag))
  )
}

function realServersBy(server: VirtualServer): Map<string, RealServer> {
  return new Map(server.realServers.map((real) => [printEndpoint(real.address, real.port), real]))
}

function describe(real: RealServer): string {
  return `${real.forward} with weight ${real.weight}`
}

function quote(server: VirtualServer): string {
  return printIpvsadmSave([server]).trimEnd()
}

function serviceLine(server: VirtualServer): string {
  return quote({ ...server, flags: [...server.flags].sort(), realServers: [] })
}

function realLine(server: VirtualServer, real: RealServer): string {
  return quote({ ...server, realServers: [real] }).split('\n')[1] ?? ''
}

/**
 * Reports the node's ends of veth pairs that are down: the Pod behind such a link receives no packet, regardless of the rules.
 * Other links except kube-ipvs0 belong to the node or the network plugin.
 */
export const linksDown = (links: readonly Link[]): Finding[] =>
  links
    .filter(({ kind, name, flags }) => (kind === 'veth' || name.startsWith('veth')) && !flags.includes('UP'))
    .map(({ name, flags }) => ({
      kind: 'wrong',
      where: { link: name },
      expected: `${name} UP`,
      actual: `${name} <${flags.join(',')}>`,
      text: `link ${name} is down: the Pod behind it receives no packets`,
      interferes: true,
    }))

/** Compares kube-ipvs0 and the Service addresses bound to it. */
export function compareLinks(expected: readonly Link[], actual: readonly Link[], options: CompareOptions): Finding[] {
  const where = { link: IPVS_LINK }
  if (options.foreign?.(where)) return []
  const wanted = expected.find((link) => link.name === IPVS_LINK)
  const found = actual.find((link) => link.name === IPVS_LINK)
  if (wanted && !found) {
    const text = `link ${IPVS_LINK} is missing (${addressesOf(wanted).size} addresses)`
    return [{ kind: 'missing', where, expected: [...addressesOf(wanted)].join('\n'), text }]
  }
  if (found && !wanted) {
    const text = `link ${IPVS_LINK} is stale (${addressesOf(found).size} addresses): mode ${options.mode} does not use it`
    return [{ kind: 'stale', where, actual: [...addressesOf(found)].join('\n'), text }]
  }
  return wanted && found ? compareAddresses(wanted, found) : []
}

function compareAddresses(wanted: Link, found: Link): Finding[] {
  const where = { link: IPVS_LINK }
  const findings: Finding[] = []
  if (wanted.kind && found.kind && wanted.kind !== found.kind) {
    const text = `link ${IPVS_LINK} is of kind ${found.kind}, not ${wanted.kind}`
    findings.push({ kind: 'wrong', where, expected: wanted.kind, actual: found.kind, text })
  }
  const expected = addressesOf(wanted)
  const actual = addressesOf(found)
  for (const address of expected) {
    if (actual.has(address)) continue
    findings.push({ kind: 'missing', where, expected: address, text: `link ${IPVS_LINK}: missing address ${address}` })
  }
  for (const address of actual) {
    if (expected.has(address)) continue
    findings.push({ kind: 'stale', where, actual: address, text: `link ${IPVS_LINK}: stale address ${address}` })
  }
  return findings
}

/** `10.96.0.1/32`; link-local IPv6 addresses, which the kernel adds itself, are left out. */
function addressesOf(link: Link): Set<string> {
  const addresses = link.addresses.filter(({ address }) => !isIPv6LinkLocal(address))
  return new Set(addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`))
}
