/** What the cluster runs on in its default state. */
export const firstModules: readonly string[] = [
  ...['bridge', 'veth', 'ip_tables', 'iptable_nat', 'iptable_filter', 'iptable_mangle', 'ipt_REJECT'],
  ...['xt_comment', 'xt_conntrack', 'xt_mark', 'xt_MASQUERADE', 'xt_nat', 'xt_tcpudp', 'xt_addrtype', 'xt_statistic'],
  ...['xt_nfacct', 'nfnetlink_acct', 'nf_conntrack_netlink'],
]

/**
 * What iptables has the kernel look for where it knows of it (up to 6.8), which takes a tenth of a second in each node unless it is
 * there already.
 */
export const soughtModule = 'bpfilter'

/** What labs need besides: IPVS with its schedulers, ipset, further matches. They come while the nodes are in use already. */
export const laterModules: readonly string[] = [
  ...['dummy', 'xt_multiport', 'xt_recent', 'xt_set', 'xt_physdev', 'xt_ipvs', 'xt_LOG', 'xt_REDIRECT', 'xt_limit'],
  ...['ip_vs', 'ip_vs_rr', 'ip_vs_wrr', 'ip_vs_lc', 'ip_vs_wlc', 'ip_vs_lblc', 'ip_vs_lblcr', 'ip_vs_sh', 'ip_vs_dh'],
  ...['ip_vs_sed', 'ip_vs_nq', 'ip_vs_fo', 'ip_vs_ovf', 'ip_vs_mh', 'nf_log_syslog'],
  ...['ip_set', 'ip_set_hash_ip', 'ip_set_hash_ipport', 'ip_set_hash_ipportip', 'ip_set_hash_ipportnet'],
  ...['ip_set_hash_net', 'ip_set_hash_netport', 'ip_set_bitmap_port', 'ip_set_list_set'],
]
