import type { z } from 'zod'
import { ConsentError } from '../cluster/consent.ts'
import { ownLabel } from '../cluster/context/write-guard.ts'
import { type KubeClient, unlessCode } from '../cluster/kube-client.ts'
import { type ApiObject, asApiObjects } from './api-object.ts'
import { listLabs } from './lab-definition.ts'
import type { Snapshot } from './snapshot.ts'

/** The namespace of the labs' notes. They are stored in the cluster and deleted with it. */
const NOTES_NAMESPACE = 'default'
export const notesName = (lab: number) => `lab-${lab}`

/**
 * A ConfigMap of the notes' namespace, among the objects of a cluster; undefined if it is missing
 * or invalid.
 */
export function configMapIn(items: readonly unknown[], name: string): ApiObject | undefined {
  // Only ConfigMaps are validated: a class's captures have many other objects.
  const maps = items.filter((item) => (item as { kind?: unknown } | null)?.kind === 'ConfigMap')
  return asApiObjects(maps).find(
    ({ metadata }) => metadata.name === name && metadata.namespace === NOTES_NAMESPACE,
  )
}

/** The ConfigMap with a lab's notes. */
export const notesOf = (items: readonly unknown[], lab: number): ApiObject | undefined =>
  configMapIn(items, notesName(lab))

/**
 * A lab's notes about moments (counts before and after, chains before the flush), as JSON in a
 * ConfigMap. Each is written once.
 */
export class LabNotes {
  readonly lab: number
  readonly #written: Record<string, string>
  readonly #fresh: Record<string, string> = {}

  constructor(lab: number, snapshot: Snapshot) {
    this.lab = lab
    const map = snapshot.find('ConfigMap', NOTES_NAMESPACE, notesName(lab))
    this.#written = map?.data ?? {}
    this.exist = map !== undefined
  }

  /** The note under a key; undefined when there is none or it is not JSON of that shape. */
  read<Note>(key: string, shape: z.ZodType<Note>): Note | undefined {
    try {
      return shape.safeParse(JSON.parse(this.#fresh[key] ?? this.#written[key] ?? 'null')).data
    } catch {
      return undefined
    }
  }

  /** The number of notes whose keys begin with a prefix. */
  count(prefix: string): number {
    const keys = new Set([...Object.keys(this.#written), ...Object.keys(this.#fresh)])
    return [...keys].filter((key) => key.startsWith(prefix)).length
  }

  /** True if the cluster, or the capture, has notes of this lab: a learner worked on it there. */
  readonly exist: boolean

  /** Adds a note, unless the key exists. */
  keep(key: string, note: unknown): void {
    if (this.#written[key] === undefined) this.#fresh[key] ??= JSON.stringify(note)
  }

  /** True if a new note is not yet stored in the cluster. */
  get hasNews(): boolean {
    return Object.keys(this.#fresh).length > 0
  }

  /**
   * Writes new notes to the cluster. Without consent, grading continues with a message that nothing
   * was written.
   */
  async save(client: KubeClient): Promise<void> {
    try {
      await writeNotes(client, this.lab, this.#fresh)
    } catch (error) {
      if (!(error instanceof ConsentError)) throw error
      tellUnwritten()
    }
  }
}

let warned = false

/** Once per command. */
function tellUnwritten(): void {
  if (!warned)
    console.error(
      ' • Read only: the notes of steps are not written to the cluster. YES=1 allows it.',
    )
  warned = true
}

/**
 * Adds or replaces a lab's notes; those of other processes stay: the guide grades while its learner
 * answers in another terminal.
 */
export const writeNotes = (
  client: KubeClient,
  lab: number,
  data: Readonly<Record<string, string>>,
): Promise<void> => writeConfigMap(client, notesName(lab), data)

/** Removes those of a lab's notes whose key fits. */
export async function forgetNotes(
  client: KubeClient,
  lab: number,
  isForgotten: (key: string) => boolean,
): Promise<void> {
  const { core, mergePatch } = client
  const keys = Object.keys((await readConfigMap(client, notesName(lab))) ?? {}).filter(isForgotten)
  if (keys.length === 0) return
  const data = Object.fromEntries(keys.map((key) => [key, null]))
  const place = { name: notesName(lab), namespace: NOTES_NAMESPACE }
  await unlessCode(404, core.patchNamespacedConfigMap({ ...place, body: { data } }, mergePatch))
}

/** The data of a ConfigMap of the labs; undefined if it does not exist. */
export async function readConfigMap(
  { core }: KubeClient,
  name: string,
): Promise<Record<string, string> | undefined> {
  const map = await unlessCode(
    404,
    core.readNamespacedConfigMap({ name, namespace: NOTES_NAMESPACE }),
  )
  return map && (map.data ?? {})
}

/** Adds data to a ConfigMap of the labs, which is created if it does not exist. */
export async function writeConfigMap(
  { core, mergePatch }: KubeClient,
  name: string,
  data: Readonly<Record<string, string>>,
): Promise<void> {
  const place = { name, namespace: NOTES_NAMESPACE }
  if (
    await unlessCode(404, core.patchNamespacedConfigMap({ ...place, body: { data } }, mergePatch))
  )
    return
  const metadata = { ...place, labels: ownLabel }
  await core.createNamespacedConfigMap({ namespace: NOTES_NAMESPACE, body: { metadata, data } })
}

/** The labs that were begun on a cluster, the one whose notes were written last first. */
export async function begunLabs({ core }: KubeClient): Promise<number[]> {
  const { items } = await core.listNamespacedConfigMap({ namespace: NOTES_NAMESPACE })
  const begun = listLabs().flatMap(({ number }) => {
    const { metadata } = items.find((item) => item.metadata?.name === notesName(number)) ?? {}
    if (!metadata) return []
    const times = [
      metadata.creationTimestamp,
      ...(metadata.managedFields ?? []).map(({ time }) => time),
    ]
    return [{ number, at: Math.max(...times.map((time) => Number(time ?? 0))) || 0 }]
  })
  return begun.toSorted((one, other) => other.at - one.at).map(({ number }) => number)
}
