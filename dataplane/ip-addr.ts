// What `ip -j -d addr` prints: a JSON array of links with their addresses.

export interface LinkAddress {
  family: 'inet' | 'inet6'
  address: string
  prefixLength: number
}

export interface Link {
  name: string
  /** `dummy`, `veth`, `bridge`, … where `ip -d` said so. */
  kind?: string
  flags: string[]
  operstate: string
  master?: string
  addresses: LinkAddress[]
}
