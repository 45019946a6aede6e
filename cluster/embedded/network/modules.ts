/**
 * Everything a lab needs, loaded at once when the network is made: modprobe can't be called by the kernel itself, whose
 * root is not the guest's.
 */
export const kernelModules: readonly string[] = [
  ...['bridge', 'veth', 'dummy'],
  ...['ip_tables', 'iptable_nat', 'iptable_filter', 'iptable_mangle', 'ipt_REJECT'],
  ...['xt_comment', 'xt_conntrack', 'xt_mark', 'xt_MASQUERADE', 'xt_nat', 'xt_tcpudp', 'xt_addrtype', 'xt_multiport'],
  ...['xt_statistic', 'xt_recent', 'xt_set', 'xt_physdev', 'xt_ipvs', 'xt_nfacct', 'xt_LOG', 'xt_REDIRECT', 'xt_limit'],
  ...['nf_conntrack_netlink', 'nfnetlink_acct', 'nf_log_syslog'],
  ...['ip_vs', 'ip_vs_rr', 'ip_vs_wrr', 'ip_vs_lc', 'ip_vs_wlc', 'ip_vs_lblc', 'ip_vs_lblcr', 'ip_vs_sh', 'ip_vs_dh'],
  ...['ip_vs_sed', 'ip_vs_nq', 'ip_vs_fo', 'ip_vs_ovf', 'ip_vs_mh'],
  ...['ip_set', 'ip_set_hash_ip', 'ip_set_hash_ipport', 'ip_set_hash_ipportip', 'ip_set_hash_ipportnet'],
  ...['ip_set_hash_net', 'ip_set_hash_netport', 'ip_set_bitmap_port', 'ip_set_list_set'],
]
