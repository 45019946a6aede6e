exec 2>&1
umask 022
ulimit -c 0
"$@" 5<&- & kernel=$!
{ read -r _ <&5; kill -KILL "-$kernel"; kill -KILL "$kernel"; } 2>/dev/null &
wait "$kernel"
echo "The process of the kernel ended with status $?"
kill -KILL "-$kernel" 2>/dev/null
[ -z "$TMPDIR" ] || rm -rf "$TMPDIR"
kill -KILL 0
