# Run on a node: waits up to a minute until no connection needs what IPVS mode left.
for second in $(seq 60); do
  busy=$(ipvsadm -Lnc 2>/dev/null | grep -c ESTABLISHED)
  for address in $(ip -4 -o address show dev kube-ipvs0 2>/dev/null | sed -n 's/.* inet \([0-9.]*\).*/\1/p'); do
    busy=$((busy + $(ss -Htn state established src "$address" | grep -c .)))
  done
  if [ "$busy" -eq 0 ]; then exit 0; fi
  sleep 1
done
echo "$busy connections still need it" >&2
exit 1
