// The machines of this lab by their names in README.md, and its commands.

import { KubeProxyError } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { runOnNode } from '../../cluster/node-script.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { SolutionStep } from '../../course/lab-solution.ts'
import { hasOutside, OUTSIDE } from '../../host/outside.ts'

/** The variables that README.md sets: names of nodes, and addresses. */
export type Variables = Record<'DIRECTOR' | 'D' | 'N1' | 'N2' | 'W1' | 'W2' | 'OUT', string>

/** One command on a machine, as written between double quotes in `make exec NODE=… CMD="…"`. */
interface Typed {
  on: '$DIRECTOR' | '$N1' | '$N2' | typeof OUTSIDE
  text: string
}

export const onDirector = (text: string): Typed => ({ on: '$DIRECTOR', text })
export const outside = (text: string): Typed => ({ on: OUTSIDE, text })
export const onWorkers = (text: string): Typed[] => [
  { on: '$N1', text },
  { on: '$N2', text },
]

/** The values of the variables on this cluster. Throws Error unless it has a control-plane node and two workers. */
export async function variables(bench: LabBench): Promise<Variables> {
  const [director, ...workers] = await bench.nodes()
  const [first, second] = workers.toSorted((one, other) => one.name.localeCompare(other.name))
  if (!director || !first || !second) throw new Error('This lab needs a control-plane node and two workers.')
  const route = await bench.onNode(OUTSIDE, `ip -4 route get ${director.address}`)
  const OUT = /\bsrc (\S+)/.exec(route)?.[1] ?? ''
  return {
    ...{ DIRECTOR: director.name, D: director.address, OUT },
    ...{ N1: first.name, N2: second.name, W1: first.address, W2: second.address },
  }
}

/** A step with these commands in this order. */
export function typing(...typed: readonly Typed[]): SolutionStep {
  return {
    commands: typed.map(({ on, text }) => `make exec NODE=${on} CMD="${text}"`),
    play: async (bench) => {
      const known = await variables(bench)
      for (const { on, text } of typed) await bench.onNode(expand(on, known), expand(text, known))
    },
  }
}

/** The same step, marked to be combined with the previous ones. */
export const independent = (step: SolutionStep): SolutionStep => ({ ...step, independent: true })

/**
 * Expands a text between double quotes like a shell: the variables of README.md, and `\$` for a dollar sign on the machine.
 */
const expand = (text: string, known: Variables): string =>
  text.replace(/\\\$|\$(DIRECTOR|D|N1|N2|W1|W2|OUT)\b/g, (_, name?: keyof Variables) => (name ? known[name] : '$'))

// Cleanup: removes the lab's changes from every machine.

/** Virtual servers of this lab's addresses and marks, the addresses, routes, tunl0, and the IPVS settings. */
const clearNode = `
servers=$(ipvsadm -Sn 2>/dev/null)
case $servers in *'-A -f '* | *' 192.0.2.'*)
  printf '%s\\n' "$servers" | awk '$1 == "-A" && ($2 == "-f" || $3 ~ /^192[.]0[.]2[.]/) { print "-D", $2, $3 }' | ipvsadm -R 2>/dev/null ;;
esac
ip -force -batch - 2>/dev/null <<'END'
address flush to 192.0.2.0/24
route del 198.18.0.0/16
route del local 198.19.0.0/16 dev lo
link set tunl0 down
END
[ ! -e /proc/sys/net/ipv4/vs/conntrack ] || echo 0 >/proc/sys/net/ipv4/vs/conntrack
true`

const clearOutside = `
ip -force -batch - 2>/dev/null <<'END'
route del 192.0.2.0/24
route del 198.19.0.0/16
route del local 198.18.0.0/16 dev lo
END
true`

/** Clears every node and the machine outside; missing parts are ignored. */
export async function clearMachines({ cluster }: LabBench): Promise<void> {
  const nodes = (await cluster.nodes()).map((node) => runOnNode(cluster, node, clearNode))
  const others = hasOutside(cluster) ? [runOnNode(cluster, OUTSIDE, clearOutside)] : []
  await Promise.all([...nodes, ...others])
}

/** Writes ipvs.excludeCIDRs into kube-proxy's configuration; kube-proxy reads it when it starts. */
export async function excludeRanges(bench: LabBench, ranges: readonly string[]): Promise<void> {
  try {
    await bench.editKubeProxyConfig((text) =>
      ranges.length === 0 && !/^ *excludeCIDRs: *(?:\[[^\]]|\n *-)/m.test(text)
        ? text
        : text.replace(/^( *excludeCIDRs:).*(?:\n *- .*)*/m, `$1 ${JSON.stringify(ranges)}`),
    )
  } catch (error) {
    // Without that ConfigMap there is nothing to exclude from.
    if (!(error instanceof KubeProxyError)) throw error
  }
}
