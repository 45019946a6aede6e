/**
 * Shell: tests whether a module is compiled in, loaded, or present by its symbols, because a kernel without module files may
 * also contain it.
 */
export const hasModule = `
has_module() {
  [ -d "/sys/module/$1" ] || grep -qs "/$1\\.ko" "/lib/modules/$(uname -r)/modules.builtin" ||
    grep -qsE "( |\\[)$1(_[a-z_]+|\\])" /proc/kallsyms
}`

/**
 * Tests, by using them, that the kernel supports the expressions that kube-proxy writes in mode nftables, inside the node's
 * own network namespace: with `nft -c` the kernel checks a table without adding it. Without nft, the modules must exist.
 * kube-proxy itself requires Linux 5.13 (pkg/proxy/nftables), because distributions with an older kernel may have an nft
 * that crashes on its rules.
 */
export const nftProbe = `${hasModule}
release=$(uname -r)
major=\${release%%.*}; minor=\${release#*.}; minor=\${minor%%[!0-9]*}
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
`
