// The machines of this lab by the names that README.md gives them, and commands as they are typed there.

import { runOnNode } from '../../cluster/node-script.ts'
import type { LabBench, SolutionStep } from '../../course/lab-bench.ts'
import { OUTSIDE } from '../../host/outside.ts'

/** The variables that README.md sets: names of nodes, and addresses. */
export type Variables = Record<'DIRECTOR' | 'D' | 'N1' | 'N2' | 'W1' | 'W2' | 'OUT', string>

/** One command on a machine, as it stands between double quotes in `make exec NODE=… CMD="…"`. */
export interface Typed {
  on: '$DIRECTOR' | '$N1' | '$N2' | typeof OUTSIDE
  text: string
}

export const onDirector = (text: string): Typed => ({ on: '$DIRECTOR', text })
export const outside = (text: string): Typed => ({ on: OUTSIDE, text })
export const onWorkers = (text: string): Typed[] => [
  { on: '$N1', text },
  { on: '$N2', text },
]

/** What the variables stand for on this cluster. Throws Error when it has not one control-plane node and two workers. */
export async function variables({ client: { core }, cluster }: LabBench): Promise<Variables> {
  const { items } = await core.listNode()
  const nodes = items
    .map(({ metadata, status }) => ({
      name: metadata?.name ?? '',
      address: status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '',
      director: metadata?.labels?.['node-role.kubernetes.io/control-plane'] !== undefined,
    }))
    .sort((one, other) => one.name.localeCompare(other.name))
  const director = nodes.find((node) => node.director)
  const [first, second] = nodes.filter((node) => node !== director)
  if (!director || !first || !second) throw new Error('This lab needs a control-plane node and two workers.')
  const { stdout } = await runOnNode(cluster, OUTSIDE, `ip -4 route get ${director.address}`)
  const OUT = /\bsrc (\S+)/.exec(stdout)?.[1] ?? ''
  return {
    ...{ DIRECTOR: director.name, D: director.address, OUT },
    ...{ N1: first.name, N2: second.name, W1: first.address, W2: second.address },
  }
}

/** Runs a command on a machine by its name. Throws Error with what it said when it failed. */
export async function onMachine({ cluster }: LabBench, machine: string, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await runOnNode(cluster, machine, script)
  if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode} on ${machine}: ${stderr.trim()}`)
  return stdout
}

/** A step whose commands are typed in this order. */
export function typing(...typed: readonly Typed[]): SolutionStep {
  return {
    commands: typed.map(({ on, text }) => `make exec NODE=${on} CMD="${text}"`),
    play: async (bench) => {
      const known = await variables(bench)
      for (const { on, text } of typed) await onMachine(bench, expand(on, known), expand(text, known))
    },
  }
}

/** The same step as one that leaves those before it as they are. */
export const besides = (step: SolutionStep): SolutionStep => ({ ...step, together: true })

/** What a shell makes of a text between double quotes: the variables of README.md, and `\$` for a dollar of the machine's own. */
const expand = (text: string, known: Variables): string =>
  text.replace(/\\\$|\$(DIRECTOR|D|N1|N2|W1|W2|OUT)\b/g, (_, name?: keyof Variables) => (name ? known[name] : '$'))
