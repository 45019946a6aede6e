#!/bin/sh
# Starts the Firefox of a tree of packages with the libraries that the system lacks.
here=$(dirname "$(readlink -f "$0")")
for folder in "$here"/../usr/lib/*-linux-gnu; do
  LD_LIBRARY_PATH=$folder:$folder/pulseaudio${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec "$here/../usr/lib/firefox-esr/firefox-esr" "$@"
