set -e
cd /proc/sys/net/ipv4
echo 1 >ip_forward
echo 1 >fib_multipath_hash_policy
for name in all default eth0; do
  echo 0 >conf/$name/send_redirects; echo 0 >conf/$name/rp_filter; echo 1 >conf/$name/accept_local
done
for protocol in tcp udp sctp; do ip rule add pref 10 ipproto "$protocol" lookup "$1"; done
ip rule add pref 100 lookup local
ip rule del pref 0
[ -z "$2" ] || ip address add "$2/32" dev eth0
exec sleep infinity
