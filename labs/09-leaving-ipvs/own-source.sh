# Run on a node: from now on the kernel takes the node's own address as the source of connections to ClusterIPs, not the ClusterIP itself,
# which is a local address while kube-ipvs0 has it. Connections that exist keep their source.
own=$(ip -4 -o route get 192.0.2.1 | sed -n 's/.* src \([0-9.]*\).*/\1/p')
ip -4 route show table local dev kube-ipvs0 2>/dev/null | while read -r type address rest; do
  ip route replace local "$address" dev kube-ipvs0 table local proto kernel scope host src "$own"
done
