/**
 * Creates an nfacct counter by netlink (NFNL_MSG_ACCT_NEW), as kube-proxy does; the guest has no
 * nfacct(8). Prints the error number.
 */
const CREATE = String.raw`socket(my $s, 16, 3, 12) or die "netlink: $!";
for my $name (@ARGV) {
  my $attribute = pack("S S a*", 4 + length($name) + 1, 1, "$name\0");
  $attribute .= "\0" x (-length($attribute) % 4);
  my $body = pack("C C n", 0, 0, 0) . $attribute;
  syswrite $s, pack("L S S L L", 16 + length($body), 7 << 8, 0x405, 1, 0) . $body or die "send: $!";
  sysread $s, my $reply, 4096 or die "receive: $!";
  my $error = -unpack("x16 l", $reply);
  die "error $error for $name" if $error && $error != 17;
}`

/**
 * A shell command that rewrites a node's rules as kube-proxy 1.31 and newer write them on a kernel
 * with nfnetlink_acct: INVALID packets and packets to node ports on loopback are counted
 * (recordings nfacct/v1.34.2).
 */
export const countWithNfacct = `perl -e '${CREATE}' -- ct_state_invalid_dropped_pkts localhost_nps_accepted_pkts || exit 1
iptables-save | sed -E \\
  -e 's/^(-A KUBE-FORWARD -m conntrack --ctstate INVALID )(-j DROP)$/\\1-m nfacct --nfacct-name ct_state_invalid_dropped_pkts \\2/' \\
  -e '/^-A KUBE-NODEPORTS .* -j KUBE-EXT-/{h; s/^-A KUBE-NODEPORTS /&-d 127.0.0.0\\/8 /
s/ -j KUBE-EXT-/ -m nfacct --nfacct-name localhost_nps_accepted_pkts&/; p; x}' | iptables-restore`
