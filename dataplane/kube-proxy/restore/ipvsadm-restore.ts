import { printEndpoint } from '../../ip-address.ts'
import { printIpvsadmSave, type VirtualServer, virtualServerKey } from '../../ipvsadm-save.ts'

/** The line of the virtual server itself, and one line for each real server by `address:port`. */
function linesOf(server: VirtualServer): { self: string; reals: Map<string, string> } {
  const [self = '', ...lines] = printIpvsadmSave([server]).trimEnd().split('\n')
  const reals = new Map<string, string>()
  for (const [index, { address, port }] of server.realServers.entries())
    reals.set(printEndpoint(address, port), lines[index] ?? '')
  return { self, reals }
}

function changesOf(wanted: VirtualServer, found: VirtualServer | undefined): string[] {
  const target = linesOf(wanted)
  if (!found) return [target.self, ...target.reals.values()]
  const present = linesOf(found)
  const lines: string[] = []
  if (target.self !== present.self) lines.push(target.self.replace(/^-A/, '-E'))
  for (const [endpoint, line] of target.reals) {
    const standing = present.reals.get(endpoint)
    if (standing === undefined) lines.push(line)
    else if (standing !== line) lines.push(line.replace(/^-a/, '-e'))
  }
  for (const [endpoint, line] of present.reals)
    if (!target.reals.has(endpoint)) lines.push(line.replace(/^-a(.* -r \S+).*$/, '-d$1'))
  return lines
}

/**
 * Input of `ipvsadm -R`, which reads any of ipvsadm's commands, that takes the virtual servers from `present` to
 * `target`. Virtual servers by firewall mark are never kube-proxy's and stay. Empty when equal.
 */
export function ipvsadmRestoreInput(target: readonly VirtualServer[], present: readonly VirtualServer[]): string {
  const wanted = new Map(target.map((server) => [virtualServerKey(server), server]))
  const found = new Map(present.map((server) => [virtualServerKey(server), server]))
  const lines: string[] = []
  for (const [key, server] of found)
    if (!wanted.has(key) && server.protocol !== 'FWM')
      lines.push(linesOf({ ...server, realServers: [] }).self.replace(/^-A (\S+ \S+).*$/, '-D $1'))
  for (const [key, server] of wanted) lines.push(...changesOf(server, found.get(key)))
  return lines.map((line) => `${line}\n`).join('')
}
