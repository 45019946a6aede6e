# Run on the director, with W1 and W2, the addresses of the real servers, and OUT, the client's: a virtual server for each
# scheduler of the comparison. Those that count connections have weights 4 and 1.
vip=192.0.2.10
for pair in 8103:lc 8104:wlc 8105:sed 8106:nq; do
  at=$vip:${pair%:*}
  ipvsadm -A -t $at -s ${pair#*:} &&
    ipvsadm -a -t $at -r $W1:8090 -m -w 4 &&
    ipvsadm -a -t $at -r $W2:8090 -m -w 1 || exit
done

# Those that hash the client's address have four real servers, and 10 ports higher the first three of them.
ip route add 198.18.0.0/16 via $OUT || exit
for pair in 8107:sh 8108:mh; do
  port=${pair%:*}
  for at in $vip:$port $vip:$((port + 10)); do
    ipvsadm -A -t $at -s ${pair#*:} || exit
    for real in $W1:8090 $W1:8990 $W2:8090; do ipvsadm -a -t $at -r $real -m || exit; done
  done
  ipvsadm -a -t $vip:$port -r $W2:8990 -m || exit
done

# Those that choose by the destination need many destinations: a virtual server can be a firewall mark instead of an address,
# and iptables gives the packets for a whole network that mark.
ip route add local 198.19.0.0/16 dev lo || exit
for pair in 8109:dh 8110:lblc 8111:lblcr; do
  mark=${pair%:*}
  iptables -t mangle -A PREROUTING -d 198.19.0.0/16 -p tcp --dport $mark \
    -m comment --comment lab-4-mark -j MARK --set-mark $mark &&
    ipvsadm -A -f $mark -s ${pair#*:} &&
    ipvsadm -a -f $mark -r $W1:8090 -m -w 2 &&
    ipvsadm -a -f $mark -r $W2:8090 -m -w 2 || exit
done
