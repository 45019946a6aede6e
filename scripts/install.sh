# Installs what package-lock.json lists with npm, which prints nothing while it downloads and has no deadline of its own.
# Environment: INSTALL_SECONDS (600) after which it is given up; it reports 40 times until then, every 15 s.
umask o-w
deadline=${INSTALL_SECONDS:-600}
every=$(((deadline + 39) / 40))
again='and run the command again'
log=$(mktemp 2>/dev/null) || log=/dev/null
refuse() {
  echo " ✗ $1" >&2
  exit 2
}

command -v npm >/dev/null || refuse "\"npm\" is not installed: install Node.js 24, for example with \`nvm install 24\`, $again."
echo ' • Installing the Node packages …' >&2
npm ci --include=dev --no-audit --no-fund --loglevel=error --fetch-timeout=60000 >"$log" 2>&1 &
npm=$!
trap '[ "$log" = /dev/null ] || rm -f "$log"' EXIT
trap 'kill "$npm"; exit 130' INT TERM HUP

seconds=0
while kill -0 "$npm" 2>/dev/null; do
  if [ "$seconds" -ge "$deadline" ]; then
    kill "$npm"
    refuse "\"npm ci\" has not ended in $deadline s: check the network and \`npm config get proxy registry\`, $again."
  fi
  sleep 1
  seconds=$((seconds + 1))
  [ $((seconds % every)) != 0 ] || echo " • Still installing the Node packages, $seconds s …" >&2
done
wait "$npm" && exit

if grep -qiE 'ENOSPC|EDQUOT|no space left|insufficient space' "$log"; then
  folder=$(sed -nE 's/^npm (error|ERR!) (path|dest) //p' "$log" | head -n 1)
  folder=${folder:-$PWD/node_modules}
  refuse "No space is left for \"$folder\": about 400 MB are needed; delete something on that disk $again."
fi
cat "$log" >&2
refuse "\"npm ci\" failed: check the network and \`npm config get proxy registry\`, $again."
