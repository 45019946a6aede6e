import type { GuestNode } from './guest-node.ts'

/**
 * Reads `ipvsadm -Ln` for the real servers that have connections, open or closing; keys as realServerKey gives them
 * (`TCP 10.96.0.1:80 10.244.1.2:80`).
 */
export function parseBusyRealServers(text: string): Set<string> {
  const busy = new Set<string>()
  let server = ''
  for (const line of text.split('\n')) {
    const virtual = /^(TCP|UDP|SCTP)\s+(\S+)\s/.exec(line)
    if (virtual) server = `${virtual[1]} ${virtual[2]}`
    const real = /^\s+->\s+(\S+:\d+)\s+\S+\s+\d+\s+(\d+)\s+(\d+)\s*$/.exec(line)
    if (real && Number(real[2]) + Number(real[3]) > 0) busy.add(`${server} ${real[1]}`)
  }
  return busy
}

/** Which of these real servers still have connections. */
export async function busyRealServers(node: GuestNode, of: ReadonlySet<string>): Promise<Set<string>> {
  const { stdout } = await node.run('ipvsadm -Ln\n')
  return new Set([...parseBusyRealServers(stdout)].filter((key) => of.has(key)))
}
