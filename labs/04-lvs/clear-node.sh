servers=$(ipvsadm -Sn 2>/dev/null)
case $servers in *'-A -f '* | *' 192.0.2.'*)
  printf '%s\n' "$servers" | awk '$1 == "-A" && ($2 == "-f" || $3 ~ /^192[.]0[.]2[.]/) { print "-D", $2, $3 }' | ipvsadm -R 2>/dev/null ;;
esac
ip -force -batch - 2>/dev/null <<'END'
address flush to 192.0.2.0/24
route del 198.18.0.0/16
route del local 198.19.0.0/16 dev lo
link set tunl0 down
END
[ ! -e /proc/sys/net/ipv4/vs/conntrack ] || echo 0 >/proc/sys/net/ipv4/vs/conntrack
true
