kernel_modes() {
  lacks=$(probe_nftables)
  case $? in 0) echo 'nftables: runs' ;; 3) echo "nftables: no $lacks" ;; esac
  if [ -e /proc/net/ip_vs ] && ipset list -n >/dev/null; then echo 'ipvs: runs'; fi
}
