PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
[ -n "$PROBE_INSIDE" ] || exec env PROBE_INSIDE=1 unshare -n sh -c "$0" "$0" "$@"
echo "release=$(uname -r)"
for module in ip_vs ip_set xt_set dummy nf_conntrack xt_recent xt_statistic br_netfilter; do
  modprobe -q "$module"
done >/dev/null 2>&1
# In a user namespace it is there from Linux 6.11 on; without it, no packet of IPVS can be masqueraded.
if [ -w /proc/sys/net/ipv4/vs/conntrack ]; then
  echo ipvs=yes
  for one in "$@"; do
    modprobe -q "ip_vs_$one" >/dev/null 2>&1
    if command -v ipvsadm >/dev/null; then ipvsadm -A -t 198.51.100.0:20000 -s "$one" && ipvsadm -D -t 198.51.100.0:20000
    else has_module "ip_vs_$one"; fi >/dev/null 2>&1 && echo "scheduler=$one"
  done
fi
ip link add probe0 type dummy 2>/dev/null && echo dummy=yes
ip link set lo up 2>/dev/null
iptables -t filter -N PROBE >/dev/null 2>&1
try() { name=$1; shift; iptables -t filter -A PROBE "$@" >/dev/null 2>&1 && echo "extension=$name"; }
try comment -m comment --comment probe -j RETURN
try conntrack -m conntrack --ctstate NEW -j RETURN
try addrtype -m addrtype --dst-type LOCAL -j RETURN
try mark -m mark --mark 0x4000/0x4000 -j RETURN
try MARK -j MARK --or-mark 0x4000
try statistic -m statistic --mode random --probability 0.5 -j RETURN
try recent -m recent --name probe --rcheck --seconds 10800 --reap -j RETURN
iptables -t nat -A POSTROUTING -j MASQUERADE --random-fully >/dev/null 2>&1 && echo extension=MASQUERADE
# If the kernel has the extension, the error is that the set does not exist.
case $(iptables -t filter -A PROBE -m set --match-set probe src -j RETURN 2>&1) in
  *"doesn't exist"*) echo ipset=yes ;;
  *) command -v ipset >/dev/null && ipset list -n >/dev/null 2>&1 && echo ipset=yes ;;
esac
iptables-legacy -t nat -A POSTROUTING -j MASQUERADE >/dev/null 2>&1 && echo nat=legacy
iptables-nft -t nat -A POSTROUTING -j MASQUERADE >/dev/null 2>&1 && echo nat=nft
case $(iptables --version 2>/dev/null) in *nf_tables*) echo backend=nft ;; *legacy*) echo backend=legacy ;; esac
echo "inotify-instances=$(cat /proc/sys/fs/inotify/max_user_instances 2>/dev/null)"
echo "inotify-watches=$(cat /proc/sys/fs/inotify/max_user_watches 2>/dev/null)"
echo "disk=$(df -Pk / | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4)"
echo end=yes
