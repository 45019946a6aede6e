/**
 * The ids of entries of a node, for views, traces and origins. Names become one segment of the id
 * each, whatever they contain.
 */
export const idOf = {
  table: (table: string): string => childId('iptables', table),
  chain: (table: string, chain: string): string => childId(`iptables/${segment(table)}`, chain),
  /** @param spec in the spelling of a prediction, or normalised */
  rule: (table: string, chain: string, spec: string): string =>
    `${idOf.chain(table, chain)}/${spec}`,
  set: (set: string): string => childId('ipset', set),
  member: (set: string, member: string): string => `${idOf.set(set)}/${member}`,
  /** @param key such as `TCP 10.96.0.1:443` */
  virtualServer: (key: string): string => childId('ipvs', key),
  realServer: (key: string, endpoint: string): string => `${idOf.virtualServer(key)}/${endpoint}`,
  link: (link: string): string => childId('links', link),
  /** @param address with its prefix length */
  address: (link: string, address: string): string => `${idOf.link(link)}/${address}`,
  /** @param table such as `ip kube-proxy` */
  nft: (table: string, part: 'chain' | 'set' | 'map', name: string): string =>
    childId(`nftables/${segment(table)}`, `${part} ${name}`),
  nftTable: (table: string): string => childId('nftables', table),
}

/**
 * The name in the last segment of an id: not of a rule, an element or an address, which are their
 * text.
 */
export const entryName = (id: string): string =>
  decodeURIComponent(id.slice(id.lastIndexOf('/') + 1))

const segment = (name: string): string =>
  /[%/]/.test(name) ? name.replace(/[%/]/g, encodeURIComponent) : name
const childId = (parent: string, name: string): string => `${parent}/${segment(name)}`
