// Output of `ip -j -d addr`: a JSON array of links with their addresses.

import * as z from 'zod'
import { canonicalAddress, familyOf } from './ip-address.ts'
import { ParseError, parseJson } from './program-output.ts'

export interface LinkAddress {
  family: 'inet' | 'inet6'
  address: string
  prefixLength: number
}

export interface Link {
  name: string
  /** `dummy`, `veth`, `bridge`, … if `ip -d` printed it. */
  kind?: string
  /** `address`: the hardware address, if it has one. */
  hardwareAddress?: string
  flags: string[]
  operstate: string
  addresses: LinkAddress[]
}

const SOURCE = 'ip -j addr'

const addressSchema = z.object({
  family: z.string(),
  local: z.string().optional(),
  prefixlen: z.number().int().min(0).max(128).optional(),
})
const linkSchema = z.object({
  ifname: z.string().optional(),
  address: z.string().optional(),
  flags: z.array(z.string()).optional(),
  operstate: z.string().optional(),
  linkinfo: z.object({ info_kind: z.string().optional() }).optional(),
  addr_info: z.array(addressSchema).optional(),
})
const outputSchema = z.array(linkSchema)

/**
 * Reads the output of `ip -j addr` or `ip -j -d addr`. Empty objects, which `ip` prints for
 * filtered links, are skipped. Throws ParseError if it is not JSON or has another structure; the
 * error names the path (`2.addr_info.0.local`).
 */
export function parseIpAddr(text: string): Link[] {
  return parseJson(SOURCE, text, outputSchema, SOURCE).flatMap((link) =>
    link.ifname === undefined ? [] : [readLink(link.ifname, link)],
  )
}

function readLink(ifname: string, link: z.infer<typeof linkSchema>): Link {
  const name = ifname.split('@')[0] ?? ifname
  const {
    flags = [],
    operstate = 'UNKNOWN',
    address: hardwareAddress,
    linkinfo: { info_kind: kind } = {},
  } = link
  const result: Link = {
    name,
    ...(kind !== undefined && { kind }),
    ...(hardwareAddress !== undefined && { hardwareAddress }),
    flags,
    operstate,
    addresses: [],
  }
  for (const entry of link.addr_info ?? []) {
    const address = readLinkAddress(name, entry)
    if (address) result.addresses.push(address)
  }
  return result
}

/** An entry of `addr_info`; undefined if it is not an IP address of the link. */
function readLinkAddress(
  link: string,
  { family, local, prefixlen }: z.infer<typeof addressSchema>,
): LinkAddress | undefined {
  if ((family !== 'inet' && family !== 'inet6') || local === undefined) return undefined
  if (familyOf(local) !== (family === 'inet' ? 'ipv4' : 'ipv6')) {
    const fault = `${link} has an address that is not an ${family} address`
    throw new ParseError(SOURCE, 1, local, fault)
  }
  const prefixLength = prefixlen ?? (family === 'inet' ? 32 : 128)
  return { family, address: canonicalAddress(local), prefixLength }
}

/** Prints links as `ip -j -d addr` does, with the fields of this model. */
export function printIpAddr(links: readonly Link[]): string {
  const output = links.map((link, index) => ({
    ifindex: index + 1,
    ifname: link.name,
    ...(link.hardwareAddress === undefined ? {} : { address: link.hardwareAddress }),
    flags: link.flags,
    operstate: link.operstate,
    ...(link.kind === undefined ? {} : { linkinfo: { info_kind: link.kind } }),
    addr_info: link.addresses.map(({ family, address: local, prefixLength: prefixlen }) => {
      return { family, local, prefixlen }
    }),
  }))
  return `${JSON.stringify(output)}\n`
}
