// Output of `ip -j -d addr`: a JSON array of links with their addresses.

import { z } from 'zod'
import { BoundedCache } from './bounded-cache.ts'
import { canonicalAddress, familyOf } from './ip-address.ts'
import { ParseError, parseJson } from './parse-error.ts'

export interface LinkAddress {
  family: 'inet' | 'inet6'
  address: string
  prefixLength: number
}

export interface Link {
  name: string
  /** `dummy`, `veth`, `bridge`, … if `ip -d` printed it. */
  kind?: string
  flags: string[]
  operstate: string
  master?: string
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
  flags: z.array(z.string()).optional(),
  operstate: z.string().optional(),
  master: z.string().optional(),
  linkinfo: z.object({ info_kind: z.string().optional() }).optional(),
  addr_info: z.array(addressSchema).optional(),
})
const outputSchema = z.array(linkSchema)

/**
 * Reads the output of `ip -j addr` or `ip -j -d addr`. Empty objects, which `ip` prints for filtered links, are skipped. Throws
 * ParseError if it is not JSON or has another structure; the error names the path (`2.addr_info.0.local`).
 */
export function parseIpAddr(text: string): Link[] {
  return linkByLink(text) ?? readWhole(text)
}

const known = new BoundedCache<Link[]>(2000)

/** The start of each link in `ip`'s one-line output. */
const LINK = '{"ifindex":'

/**
 * Parses each link separately and caches it, because most links of a node never change. Undefined if a piece is not a complete
 * link.
 */
function linkByLink(text: string): Link[] | undefined {
  const list = text.trimEnd()
  if (!list.startsWith(`[${LINK}`) || !list.endsWith(']')) return undefined
  const pieces = list.slice(1 + LINK.length, -1).split(`,${LINK}`)
  try {
    const links = pieces.flatMap((piece) => known.getOrCreateOfSlice(piece, (own) => readWhole(`[${LINK}${own}]`)))
    return links.map((link) => ({ ...link, flags: [...link.flags], addresses: [...link.addresses] }))
  } catch {
    return undefined
  }
}

const readWhole = (text: string): Link[] =>
  parseJson(SOURCE, text, outputSchema, SOURCE).flatMap((link) =>
    link.ifname === undefined ? [] : [readLink(link.ifname, link)],
  )

function readLink(ifname: string, link: z.infer<typeof linkSchema>): Link {
  const name = ifname.split('@')[0] ?? ifname
  const result: Link = {
    name,
    flags: link.flags ?? [],
    operstate: link.operstate ?? 'UNKNOWN',
    addresses: [],
  }
  if (link.linkinfo?.info_kind !== undefined) result.kind = link.linkinfo.info_kind
  if (link.master !== undefined) result.master = link.master
  for (const { family, local, prefixlen } of link.addr_info ?? []) {
    if ((family !== 'inet' && family !== 'inet6') || local === undefined) continue
    if (familyOf(local) !== (family === 'inet' ? 'ipv4' : 'ipv6')) {
      throw new ParseError(SOURCE, 1, local, `${name} has an address that is not an ${family} address`)
    }
    const prefixLength = prefixlen ?? (family === 'inet' ? 32 : 128)
    result.addresses.push({ family, address: canonicalAddress(local), prefixLength })
  }
  return result
}

/** Prints links as `ip -j -d addr` does, with the fields of this model. */
export function printIpAddr(links: readonly Link[]): string {
  const output = links.map((link, index) => ({
    ifindex: index + 1,
    ifname: link.name,
    flags: link.flags,
    ...(link.master === undefined ? {} : { master: link.master }),
    operstate: link.operstate,
    ...(link.kind === undefined ? {} : { linkinfo: { info_kind: link.kind } }),
    addr_info: link.addresses.map(({ family, address, prefixLength }) => ({
      family,
      local: address,
      prefixlen: prefixLength,
    })),
  }))
  return `${JSON.stringify(output)}\n`
}
