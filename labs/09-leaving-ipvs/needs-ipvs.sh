# Run on a node: counts what still needs that which IPVS mode left: connections in the table of IPVS, sockets of the node's own processes
# whose source is a ClusterIP, and routes by which the next socket would get such a source.
ipvs=$(ipvsadm -Lnc 2>/dev/null | grep -c ESTABLISHED)
sockets=0
routes=0
for address in $(ip -4 -o address show dev kube-ipvs0 2>/dev/null | sed -n 's/.* inet \([0-9.]*\).*/\1/p'); do
  sockets=$((sockets + $(ss -Htn state established src "$address" | grep -c .)))
  routes=$((routes + $(ip -4 route show table local dev kube-ipvs0 "$address" | grep -c "src $address")))
done
echo "ipvs=$ipvs sockets=$sockets routes=$routes"
