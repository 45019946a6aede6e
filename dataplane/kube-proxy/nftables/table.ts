import type { NftTable } from '../../nft-table.ts'
import type { KubeProxyConfig } from '../config.ts'
import type { Proxier } from '../proxier.ts'
import { NftTableBuilder } from './builder.ts'
import { writeServicePort } from './service-chains.ts'
import { writeStaticChains } from './static-chains.ts'

/** Defaults that only this mode has: node ports are served on the node's primary address. */
export const withNftablesDefaults = (config: KubeProxyConfig): KubeProxyConfig =>
  config.nodePortAddresses.length > 0 ? config : { ...config, nodePortAddresses: ['primary'] }

/** All that kube-proxy's nftables mode writes in one family, from 1.30 on. */
export function nftablesTable(proxier: Proxier): NftTable {
  const builder = new NftTableBuilder(proxier.family)
  writeStaticChains(builder, proxier)
  for (const port of proxier.ports) writeServicePort(builder, proxier, port)
  return builder.table
}
