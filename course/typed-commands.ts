// The learner's commands as words of reference solutions. Each word is what `make solve-N` prints,
// and what it does.

import { installToolsEverywhere } from '../cluster/node-tools.ts'
import { chosenNode } from '../cluster/select.ts'
import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { personalise } from '../grading/variant.ts'
import { deployWeb } from './deploy-web.ts'
import type { LabBench } from './lab-bench.ts'
import type { SolutionStep } from './lab-solution.ts'

/** A step that only reads. */
export const readsOnly: SolutionStep = { commands: [] }

/** Commands in their order. */
export const typing = (...actions: readonly SolutionStep[]): SolutionStep => ({
  commands: actions.flatMap(({ commands }) => commands),
  actions: actions.flatMap((word) => word.actions ?? [word]),
  play: async (bench) => {
    for (const { play } of actions) await play?.(bench)
  },
})

/** Commands that do not wait for each other when they are played. */
export const atOnce = (...actions: readonly SolutionStep[]): SolutionStep => ({
  commands: actions.flatMap(({ commands }) => commands),
  play: async (bench) => {
    await Promise.all(actions.map(({ play }) => play?.(bench)))
  },
})

/** The same step, which does not affect the steps before it. */
export const independent = (step: SolutionStep): SolutionStep => ({ ...step, independent: true })

/** `make web` */
export const web: SolutionStep = {
  commands: ['make web'],
  play: async (bench) => {
    for (const line of await deployWeb(bench)) bench.progress.note(line)
  },
}
/** `make tools` */
export const tools: SolutionStep = {
  commands: ['make tools'],
  play: async ({ cluster, progress }) => {
    for (const line of await installToolsEverywhere(cluster)) progress.note(line)
  },
}
/** `make flush-nat` */
export const flush: SolutionStep = { commands: ['make flush-nat'], play: (bench) => bench.flush() }

/** `make ipvs SCHEDULER=lc KUBE_PROXY_VERSION=1.20` */
export function mode(
  name: KubeProxyMode,
  options: { scheduler?: string; version?: string } = {},
): SolutionStep {
  const { scheduler, version } = options
  const scheduling = scheduler === undefined ? '' : ` SCHEDULER=${scheduler}`
  const versioned = version === undefined ? '' : ` KUBE_PROXY_VERSION=${version}`
  return {
    commands: [`make ${name}${scheduling}${versioned}`],
    play: (bench) => bench.mode(name, options),
  }
}

/** `kubectl apply -f FILE` */
export const apply = (...files: readonly string[]): SolutionStep => ({
  commands: [`kubectl apply -f ${files.join(' -f ')}`],
  play: async (bench) => {
    await Promise.all(files.map((file) => bench.apply(file)))
  },
})

/** `kubectl delete -f FILE` */
export const remove = (file: string): SolutionStep => ({
  commands: [`kubectl delete -f ${file}`],
  play: (bench) => bench.remove(file),
})

/** `kubectl delete pod NAME` */
export const deletePod = (name: string): SolutionStep => ({
  commands: [`kubectl delete pod ${name}`],
  play: (bench) => bench.delete('Pod', name),
})

/** `kubectl wait --for=condition=Ready pod/NAME` */
export const podsReady = (...names: readonly string[]): SolutionStep => ({
  commands: [`kubectl wait --for=condition=Ready pod/${names.join(' pod/')} --timeout=90s`],
  play: async (bench) => {
    await Promise.all(names.map((name) => bench.podReady(name)))
  },
})

/** `kubectl rollout status KIND/NAME` */
export const rolledOut = (
  kind: 'Deployment' | 'DaemonSet',
  name: string,
  seconds = 90,
): SolutionStep => ({
  commands: [`kubectl rollout status ${kind.toLowerCase()}/${name} --timeout=${seconds}s`],
  play: (bench) => bench.rolledOut(kind, name === 'web' ? bench.variant.name : name),
})

/** Exposes web-np or web-lb, by the names of the variant. */
export const expose = (suffix: 'np' | 'lb', type: 'NodePort' | 'LoadBalancer'): SolutionStep => ({
  commands: [`kubectl expose deployment web --name web-${suffix} --type ${type} --port 80`],
  play: async (bench) => {
    const { name, port } = bench.variant
    const selector = { app: 'web' }
    const spec = { type, selector, ports: [{ port, targetPort: 80 }] }
    await bench.create('Service', `${name}-${suffix}`, selector, { spec })
  },
})

/** `kubectl patch service NAME --type merge -p '{…}'`; web, web-np and web-lb in the variant. */
export const patchService = (name: string, patch: object): SolutionStep => ({
  commands: [`kubectl patch service ${name} --type merge -p '${JSON.stringify(patch)}'`],
  play: (bench) =>
    bench.patch('Service', name.replace(/^web(?=$|-(?:np|lb)$)/, bench.variant.name), patch),
})

/** Deletes the kube-proxy of a node; its successor writes everything again. */
export const replaceKubeProxyOn = (node: string): SolutionStep => ({
  commands: [
    `kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName=${node}`,
  ],
  play: (bench) => bench.replaceKubeProxyPod(node),
})

/** Runs a command on a node of a known name. */
export const runOn = (node: string, command: string): SolutionStep => ({
  commands: [`make exec NODE=${node} CMD='${command}'`],
  play: async (bench) => {
    await bench.onNode(node, command)
  },
})

/** Patches the spec of web-lb. */
export const patchLoadBalancer = (spec: object): SolutionStep => ({
  commands: [`kubectl patch service web-lb -p '${JSON.stringify({ spec })}'`],
  play: (bench) => bench.patch('Service', `${bench.variant.name}-lb`, { spec }),
})

type QuestionStep = (
  id: string,
  typed: string,
  read: string | ((bench: LabBench) => Promise<string>),
) => SolutionStep

/**
 * The word for a lab's answers: the question, the answer as typed, and what it is on this cluster.
 * @param written how its README writes the command
 */
export const answers =
  (lab: number, written = `make answer LAB=${lab}`): QuestionStep =>
  (id, typed, read) => ({
    commands: [`${written} Q=${id} A=${typed}`],
    reads: true,
    play: async (bench) =>
      bench.answer(lab, id, typeof read === 'string' ? read : await read(bench)),
  })

/**
 * The word for a lab's predictions, which comes before the commands of the step: the step, the
 * prediction as typed, and what it is on this cluster before these commands.
 */
export const predictions =
  (lab: number, written = `make answer LAB=${lab}`): QuestionStep =>
  (id, typed, read) => ({
    commands: [`${written} Q=${id} A=${typed}`],
    reads: true,
    play: async (bench) =>
      bench.predict(lab, id, typeof read === 'string' ? read : await read(bench)),
  })

/** The values of a lab's shell variables on a cluster. */
type ShellVariables = Readonly<Record<string, string>>

/**
 * A word as a shell reads it: between single quotes as it is; else with the variables, and `\$` for
 * a dollar sign.
 */
const expandWord = (word: string, known: ShellVariables): string =>
  word.startsWith("'")
    ? word.slice(1, -1)
    : word
        .replace(/^"(.*)"$/s, '$1')
        .replace(/\\\$|\$([A-Z][A-Z0-9_]*)\b/g, (all, name?: string) =>
          name ? (known[name] ?? all) : '$',
        )

/**
 * A command on a machine as typed in `make exec NODE=… CMD=…`: the machine, and the command with
 * its quotes.
 */
export type OnMachine = readonly [node: string, command: string]

/**
 * Words for commands on machines, in which the variables that the lab's README sets are replaced by
 * what `read` returns.
 */
export function withVariables(
  read: (bench: LabBench) => Promise<ShellVariables> = async () => ({}),
) {
  const run = async (
    bench: LabBench,
    known: ShellVariables,
    [node, command]: OnMachine,
  ): Promise<string> => {
    const machine = node === '' ? await chosenNode(bench.cluster, node) : expandWord(node, known)
    return bench.onNode(machine, expandWord(personalise(command, bench.variant), known))
  }
  const typed = ([node, command]: OnMachine) => `exec${node && ` NODE=${node}`} CMD=${command}`
  return {
    /** Runs commands one after the other. */
    exec: (...commands: readonly OnMachine[]): SolutionStep => ({
      commands: commands.map((command) => `make ${typed(command)}`),
      play: async (bench) => {
        const known = await read(bench)
        for (const command of commands) await run(bench, known, command)
      },
    }),
    /** `kubectl exec POD -- …` */
    inPod: (pod: string, command: string): SolutionStep => ({
      commands: [`kubectl exec ${pod} -- ${command}`],
      play: async (bench) => {
        await bench.inPod(pod, expandWord(personalise(command, bench.variant), await read(bench)))
      },
    }),
    /** The answer that a command prints on a machine; an empty name is the first worker. */
    printed: (answer: QuestionStep, id: string, ...command: OnMachine): SolutionStep =>
      answer(id, `"$(make -s ${typed(command)})"`, async (bench) =>
        (await run(bench, await read(bench), command)).trim(),
      ),
  }
}
