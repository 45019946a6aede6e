import { type EngineName, engineCommand, engineReason } from './engine.ts'

/** Timeout of an engine command. */
const answerMs = 60_000

/** A node of a kind cluster as its engine lists it. */
export interface NodeContainer {
  name: string
  /** `running`, `paused`, `exited` … */
  state: string
}

export const isRunning = ({ state }: NodeContainer): boolean => state === 'running'

/** The node containers of a cluster, control plane first; empty where there is none. Throws when the engine does not answer. */
export async function nodeContainers(engine: EngineName, cluster: string): Promise<NodeContainer[]> {
  const label = `label=io.x-k8s.kind.cluster=${cluster}`
  const format = '{{.Names}}\t{{.State}}'
  const { exitCode, stdout, stderr } = await engineCommand(
    answerMs,
  )`${engine} ps -a --filter ${label} --format ${format}`
  if (exitCode !== 0) throw new Error(`${engine} could not list its containers: ${engineReason(stderr)}`)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t'))
    .map(([name = '', state = '']) => ({ name, state }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** What the engine prints about containers with a given template; empty if it prints nothing. */
async function inspected(engine: EngineName, format: string, names: readonly string[]): Promise<string> {
  return (await engineCommand(answerMs)`${engine} inspect --format ${format} ${[...names]}`).stdout.trim()
}

/** The image of a container, by an ID that the engine resolves without a registry. */
export const imageOf = (engine: EngineName, container: string) => inspected(engine, '{{.Image}}', [container])

/** `running`, `paused`, `exited` …; empty where there is no such container. */
export const stateOf = (engine: EngineName, container: string) => inspected(engine, '{{.State.Status}}', [container])

/** The last start of each container, by the engine's clock, which is also the node's. */
export async function startTimes(engine: EngineName, names: readonly string[]): Promise<Map<string, Date>> {
  const lines = (await inspected(engine, '{{.Name}} {{json .State.StartedAt}}', names)).split('\n')
  return new Map(
    lines.flatMap((line) => {
      const [, name, time] = /^\/?(\S+) "(\S+)"$/.exec(line) ?? []
      return name === undefined || time === undefined ? [] : [[name, new Date(time)] as const]
    }),
  )
}

/** The IPv4 address of each container on its network, by name. */
export async function addressesOf(engine: EngineName, names: readonly string[]): Promise<Map<string, string>> {
  const format = '{{.Name}} {{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'
  const lines = (await inspected(engine, format, names)).match(/[^/\s]+ [\d.]+$/gm) ?? []
  return new Map(lines.map((line) => line.split(' ') as [string, string]))
}

/** Throws with the engine's reason. */
async function change(
  engine: EngineName,
  action: 'start' | 'stop' | 'unpause',
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return
  const { exitCode, stderr } = await engineCommand(answerMs)`${engine} ${action} ${names}`
  if (exitCode !== 0) throw new Error(`${engine} could not ${action} ${names.join(', ')}: ${engineReason(stderr)}`)
}

/**
 * Stops containers and starts them one after the other: engines assign addresses in this order. Throws with the engine's
 * reason.
 */
export async function restartInOrder(engine: EngineName, names: readonly string[]): Promise<void> {
  await change(engine, 'stop', names)
  for (const name of names) await change(engine, 'start', [name])
}

/**
 * Starts stopped containers, as after a restart of the machine, and unpauses paused ones. Throws with the engine's reason.
 */
export async function startContainers(engine: EngineName, containers: readonly NodeContainer[]): Promise<void> {
  const namesOf = (paused: boolean) =>
    containers.filter(({ state }) => (state === 'paused') === paused).map(({ name }) => name)
  await change(engine, 'unpause', namesOf(true))
  await change(engine, 'start', namesOf(false))
}
