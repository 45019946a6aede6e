# Run on the machine outside: prints the word of the client there and whether it runs, then its log. Prints nothing if none was started.
folder=/run/lab-9
[ -s $folder/client ] || exit 0
read -r word process <$folder/client
if grep -qs traffic.pl "/proc/$process/cmdline"; then echo "$word runs"; else echo "$word ended"; fi
cat $folder/log
