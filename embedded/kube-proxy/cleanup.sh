# The program kube-proxy of kube-proxy's container, for `kubectl exec`. `--cleanup` removes what kube-proxy writes in any mode: platformCleanup
# of cmd/kube-proxy/app, with CleanupLeftovers of pkg/proxy/iptables, ipvs and nftables, as in 1.34; up to 1.30 fewer chains are looked for. What the
# kernel refuses to remove is logged, and stays. Arguments: the version, the names of the sets of IPVS mode in one word, and what was typed.
version=$1
sets=$2
shift 2
case "$*" in
--version) echo "Kubernetes $version"; exit 0 ;;
*--cleanup*) ;;
*) echo 'Error: this kube-proxy runs already; only --cleanup and --version can be typed here.' >&2; exit 1 ;;
esac

failed=0
log() {
  printf 'E%s       1 %s] "%s" err="%s"\n' "$(date +'%m%d %H:%M:%S.%6N')" "$1" "$2" "$(echo "$3" | head -n 1)" >&2
}
complain() {
  log "$@"
  failed=1
}

# Deletes the jump from chain $2 of table $1 to chain $3 with the comment $4; the other arguments are matches before the comment.
unlink_chain() {
  table=$1 from=$2 to=$3 comment=$4
  shift 4
  $ipt -w 5 -t "$table" -C "$from" "$@" -m comment --comment "$comment" -j "$to" 2>/dev/null || return 0
  refused=$($ipt -w 5 -t "$table" -D "$from" "$@" -m comment --comment "$comment" -j "$to" 2>&1) ||
    complain cleanup.go:55 'Error removing proxy rule' "$refused"
}

# Flushes and deletes the chains of table $1 whose names match $2, in one step: the kernel takes all of it or nothing.
remove_chains() {
  chains=$($ipt-save -t "$1" | sed -n 's/^:\(KUBE-[^ ]*\) .*/\1/p' | grep -xE "$2")
  [ -n "$chains" ] || return 0
  refused=$({
    echo "*$1"
    for chain in $chains; do echo ":$chain - [0:0]"; done
    for chain in $chains; do echo "-X $chain"; done
    echo COMMIT
  } | $ipt-restore -w 5 --noflush --counters 2>&1) || complain cleanup.go:101 "Failed to execute $ipt-restore" "$refused"
}

clean_iptables() {
  new='-m conntrack --ctstate NEW'
  for chain in INPUT FORWARD; do
    unlink_chain filter $chain KUBE-EXTERNAL-SERVICES 'kubernetes externally-visible service portals' $new
  done
  unlink_chain filter INPUT KUBE-NODEPORTS 'kubernetes health check service ports'
  for chain in FORWARD OUTPUT; do unlink_chain filter $chain KUBE-SERVICES 'kubernetes service portals' $new; done
  unlink_chain filter FORWARD KUBE-FORWARD 'kubernetes forwarding rules'
  for chain in INPUT OUTPUT FORWARD; do
    unlink_chain filter $chain KUBE-PROXY-FIREWALL 'kubernetes load balancer firewall' $new
  done
  for chain in OUTPUT PREROUTING; do unlink_chain nat $chain KUBE-SERVICES 'kubernetes service portals'; done
  unlink_chain nat POSTROUTING KUBE-POSTROUTING 'kubernetes postrouting rules'
  case $version in
  v1.[12]?.* | v1.30.*) more_nat= more_filter= ;;
  *) more_nat='|KUBE-MARK-MASQ|KUBE-PROXY-CANARY' more_filter='|KUBE-PROXY-FIREWALL|KUBE-PROXY-CANARY' ;;
  esac
  remove_chains nat "KUBE-SERVICES|KUBE-NODEPORTS|KUBE-POSTROUTING|KUBE-(SVC|SVL|FW|EXT|SEP|XLB)-.*$more_nat"
  remove_chains filter "KUBE-SERVICES|KUBE-EXTERNAL-SERVICES|KUBE-FORWARD|KUBE-NODEPORTS$more_filter"
  [ -z "$more_nat" ] || $ipt -w 5 -t mangle -X KUBE-PROXY-CANARY 2>/dev/null
}

clean_ipvs_rules() {
  for chain in OUTPUT PREROUTING; do unlink_chain nat $chain KUBE-SERVICES 'kubernetes service portals'; done
  unlink_chain nat POSTROUTING KUBE-POSTROUTING 'kubernetes postrouting rules'
  unlink_chain filter FORWARD KUBE-FORWARD 'kubernetes forwarding rules'
  unlink_chain filter INPUT KUBE-NODE-PORT 'kubernetes health check rules'
  for chain in INPUT FORWARD; do unlink_chain filter $chain KUBE-PROXY-FIREWALL 'kube-proxy firewall rules'; done
  unlink_chain filter INPUT KUBE-IPVS-FILTER 'kubernetes ipvs access filter'
  unlink_chain filter OUTPUT KUBE-IPVS-OUT-FILTER 'kubernetes ipvs access filter'
  own='nat:KUBE-SERVICES nat:KUBE-POSTROUTING nat:KUBE-NODE-PORT nat:KUBE-LOAD-BALANCER filter:KUBE-FORWARD filter:KUBE-NODE-PORT
    filter:KUBE-PROXY-FIREWALL filter:KUBE-SOURCE-RANGES-FIREWALL filter:KUBE-IPVS-FILTER filter:KUBE-IPVS-OUT-FILTER'
  # All are flushed before the first is deleted: they jump to each other.
  for option in -F -X; do
    for chain in $own; do
      $ipt -w 5 -t "${chain%:*}" -S "${chain#*:}" >/dev/null 2>&1 || continue
      refused=$($ipt -w 5 -t "${chain%:*}" $option "${chain#*:}" 2>&1) ||
        complain cleanup.go:58 'Error removing iptables rules in ipvs proxier' "$refused"
    done
  done
}

clean_ipvs() {
  modprobe -va ip_vs >/dev/null 2>&1 || return 0
  ipvsadm -C || complain cleanup.go:90 'Error flushing ipvs rules' 'ipvsadm'
  if [ -e /sys/class/net/kube-ipvs0 ] || ip link show kube-ipvs0 >/dev/null 2>&1; then
    ip link delete kube-ipvs0 || complain cleanup.go:98 'Error deleting dummy device created by ipvs proxier' kube-ipvs0
  fi
  for ipt in iptables ip6tables; do clean_ipvs_rules; done
  # By their names of IPv4: those of IPv6, KUBE-6-…, are not looked for.
  for set in $sets; do
    ipset list -name "$set" >/dev/null 2>&1 || continue
    refused=$(ipset destroy "$set" 2>&1) || complain cleanup.go:113 'Error removing ipset' "$refused"
  done
}

for ipt in iptables ip6tables; do clean_iptables; done
clean_ipvs
for family in ip ip6; do
  nft list table $family kube-proxy >/dev/null 2>&1 || continue
  refused=$(nft delete table $family kube-proxy 2>&1) || complain proxier.go:500 'Error cleaning up nftables rules' "$refused"
done
[ $failed = 0 ] || log run.go:72 'command failed' 'encountered an error while tearing down rules'
exit $failed
