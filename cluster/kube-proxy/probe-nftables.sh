release=$(uname -r)
major=${release%%.*}; minor=${release#*.}; minor=${minor%%[!0-9]*}
[ "$major" -gt 5 ] || { [ "$major" -eq 5 ] && [ "$minor" -ge 13 ]; } ||
  { echo "nftables as kube-proxy requires it (Linux 5.13 or newer, this is $release)"; exit 3; }
modprobe -a nf_tables nft_chain_nat nft_masq nft_numgen nft_ct nft_fib_ipv4 nft_reject_ipv4 >/dev/null 2>&1
if command -v nft >/dev/null; then
  nft -c -f - >/dev/null 2>&1 <<'END-OF-TABLE' || { echo 'NAT in nf_tables (module nft_chain_nat)'; exit 3; }
table ip kube-service-labs-probe {
  map services { type ipv4_addr . inet_proto . inet_service : verdict; }
  chain endpoint { meta l4proto tcp dnat to 198.51.100.1:80; }
  chain service { numgen random mod 1 vmap { 0 : goto endpoint }; }
  chain prerouting { type nat hook prerouting priority dstnat; ip daddr . meta l4proto . th dport vmap @services; jump service; }
  chain postrouting { type nat hook postrouting priority srcnat; fib saddr type local masquerade fully-random; }
}
END-OF-TABLE
else
  has_module nft_chain_nat || { echo 'NAT in nf_tables (module nft_chain_nat)'; exit 3; }
fi
