import { HTTP_GET } from '../cluster/http-get.ts'
import { shellWord } from '../host/shell-word.ts'

/** Seconds that anybody waits for an answer. */
const PATIENCE = 3

/** Shell text for a node: one request over HTTP to an IPv4 address, which ends well when it is answered with a status below 400. */
export function httpRequest(address: string, port: number): string {
  return `${HTTP_GET}\nhttp_get ${shellWord(address)} ${port} / ${PATIENCE} >/dev/null`
}
