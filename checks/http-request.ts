import { shellWord } from '../cluster/shell-word.ts'

/** Seconds that anybody waits for an answer. */
const PATIENCE = 3

/** bash asks by itself; a subshell of it waits for the connection, for nothing else can be given up in time. */
const BASH = `exec 4< <(exec 2>/dev/null 3<>"/dev/tcp/$1/$2" || exit
  printf "GET / HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n" "$1" >&3
  IFS= read -r line <&3 && printf "%s\\n" "$line")
IFS= read -t ${PATIENCE} -r status <&4 || { kill $! 2>/dev/null; echo "no answer: refused, or none within ${PATIENCE} s" >&2; exit 1; }
case $status in HTTP/*" "[23]*) ;; *) echo "the answer was $status" >&2; exit 1 ;; esac`

/**
 * Shell text for a node: one request over HTTP to an IPv4 address, which ends well when it is answered with a status below 400. curl is
 * asked only where bash can't do it: on the embedded kernel starting it takes as long as reading all rules.
 */
export function httpRequest(address: string, port: number): string {
  const curl = `curl -sS --fail --max-time ${PATIENCE} ${shellWord(`http://${address}:${port}/`)} -o /dev/null`
  return `if [ -e /dev/fd ] && command -v bash >/dev/null; then bash -c '${BASH}' bash ${shellWord(address)} ${port}; else ${curl}; fi`
}
