# Fills the conntrack table of this node with established connections between addresses for documentation (RFC 5737).
# cat: the shell reads by single bytes, and these files have no second one for it.
max=$(cat /proc/sys/net/netfilter/nf_conntrack_max)
count=$(cat /proc/sys/net/netfilter/nf_conntrack_count)
# The last entries find no room if others came meanwhile.
awk -v entries=$((max - count)) 'BEGIN {
  for (n = 0; n < entries; n++)
    printf "-A -p tcp -s 198.51.100.%d -d 203.0.113.1 --sport %d --dport 80 --state ESTABLISHED -t 900 -u SEEN_REPLY,ASSURED\n", 1 + n / 60000, 1024 + n % 60000
}' | conntrack --load-file - 2>/dev/null || true
echo "$(cat /proc/sys/net/netfilter/nf_conntrack_count) of $max entries"
