import type { Link } from '../ip-addr.ts'
import { isIPv6LinkLocal } from '../ip-address.ts'
import type { CompareOptions, Finding } from './finding.ts'
import { IPVS_LINK } from './ownership.ts'

/**
 * The node's ends of veth pairs that are down: a Pod behind one gets no packet, whatever the rules say. All other links but
 * kube-ipvs0 are the node's or the network plugin's matter.
 */
export const linksDown = (links: readonly Link[]): Finding[] =>
  links
    .filter(({ kind, name, flags }) => (kind === 'veth' || name.startsWith('veth')) && !flags.includes('UP'))
    .map(({ name, flags }) => ({
      kind: 'wrong',
      where: { link: name },
      expected: `${name} UP`,
      actual: `${name} <${flags.join(',')}>`,
      text: `link ${name} is down: the Pod behind it gets no packet`,
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
    const text = `link ${IPVS_LINK} is stale (${addressesOf(found).size} addresses): mode ${options.mode} has no use for it`
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

/** `10.96.0.1/32`; link-local IPv6 addresses are the kernel's own doing and are left out. */
function addressesOf(link: Link): Set<string> {
  const addresses = link.addresses.filter(({ address }) => !isIPv6LinkLocal(address))
  return new Set(addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`))
}
