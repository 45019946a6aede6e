# Keeps the conntrack table of this node full for ten seconds, with established connections between addresses for documentation
# (RFC 5737), and then removes them. They end after a minute by themselves: a full table is never left behind.
FULL_SECONDS=10
LARGEST=262144
max=$(cat /proc/sys/net/netfilter/nf_conntrack_max)
if [ "$max" -gt "$LARGEST" ]; then
  echo "The table of this node has room for $max entries, and a lab fills no table of more than $LARGEST"
  exit
fi
count() { cat /proc/sys/net/netfilter/nf_conntrack_count; }
drops() { conntrack -S | awk -v RS=' ' -F= '$1 == "drop" { sum += $2 } END { print sum }'; }
# conntrack stops with an error at an entry that ended by itself meanwhile.
delete() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    conntrack -D -p tcp "$@" 2>&1 >/dev/null | grep -q 'Operation failed' || return 0
  done
}
empty() { delete -d 203.0.113.1; }
added=0
# Fails if nothing is missing. The last entries find no room if others came meanwhile.
fill() {
  missing=$((max - $(count)))
  [ "$missing" -gt 0 ] || return
  awk -v entries="$missing" -v first="$added" 'BEGIN {
    for (n = first; n < first + entries; n++)
      printf "-A -p tcp -s 198.51.100.%d -d 203.0.113.1 --sport %d --dport 80 --state ESTABLISHED -t 60 -u SEEN_REPLY,ASSURED\n", 1 + n / 60000, 1024 + n % 60000
  }' | conntrack --load-file - >/dev/null 2>&1
  added=$((added + missing))
}
empty
trap empty EXIT
before=$(drops)
# Entries of closed connections end all the time, and each of them would make room for a new one.
delete --state TIME_WAIT
fill
echo "$(count) of $max entries"
end=$(($(date +%s) + FULL_SECONDS))
# A few others end meanwhile.
while [ "$(date +%s)" -lt "$end" ]; do
  fill || sleep 0.2
done
echo "$(($(drops) - before)) packets got no entry and were dropped"
