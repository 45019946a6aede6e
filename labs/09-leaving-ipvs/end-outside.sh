# Run on the machine outside: ends the client there, and removes its files.
folder=/run/lab-9
if [ -s $folder/client ]; then kill "$(cut -d' ' -f2 $folder/client)" 2>/dev/null; fi
rm -rf $folder
