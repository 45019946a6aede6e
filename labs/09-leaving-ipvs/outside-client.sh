# Run on the machine outside: starts a client there, in place of an earlier one. Its arguments are the program of the other clients in base64
# and its targets, addresses with a port. The file `client` has a word of its own for each start, and the id of its process.
folder=/run/lab-9
if [ -s $folder/client ]; then kill "$(cut -d' ' -f2 $folder/client)" 2>/dev/null; fi
mkdir -p $folder
printf %s "$1" | base64 -d >$folder/traffic.pl
shift
TARGETS="$*" setsid perl $folder/traffic.pl >$folder/log 2>&1 </dev/null &
echo "$(cat /proc/sys/kernel/random/uuid) $!" >$folder/client
