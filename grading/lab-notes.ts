import { ConsentError } from '../cluster/consent.ts'
import { ownLabel } from '../cluster/context/write-guard.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import type { Snapshot } from './snapshot.ts'

/** Where the notes of a lab live: in the cluster itself, so that they go where it goes. */
export const NOTES_NAMESPACE = 'default'
export const notesName = (lab: number) => `lab-${lab}`

/**
 * What the checks of a lab saw at its moments (counts before and after, chains before the flush), kept as JSON in a
 * ConfigMap. A check's note is written once; a later round finds it and lets the step hold.
 */
export class LabNotes {
  readonly #lab: number
  readonly #written: Record<string, string>
  readonly #fresh: Record<string, string> = {}

  constructor(lab: number, snapshot: Snapshot) {
    this.#lab = lab
    const map = snapshot.find('ConfigMap', NOTES_NAMESPACE, notesName(lab))
    this.#written = map?.data ?? {}
  }

  /** The note under a key; undefined when there is none or it is not JSON of that shape. */
  read<Note>(key: string, isNote: (value: unknown) => value is Note): Note | undefined {
    const text = this.#fresh[key] ?? this.#written[key]
    if (text === undefined) return undefined
    try {
      const value: unknown = JSON.parse(text)
      return isNote(value) ? value : undefined
    } catch {
      return undefined
    }
  }

  /** Keeps a note, unless there is one under that key already. */
  keep(key: string, note: unknown): void {
    if (this.#written[key] === undefined) this.#fresh[key] ??= JSON.stringify(note)
  }

  /** True when a note was kept that the cluster does not hold yet. */
  get hasNews(): boolean {
    return Object.keys(this.#fresh).length > 0
  }

  /** Writes what is new to the cluster. Without consent to that, grading goes on, and says that nothing was written down. */
  async save(client: KubeClient): Promise<void> {
    try {
      await writeNotes(client, this.#lab, this.#fresh)
    } catch (error) {
      if (!(error instanceof ConsentError)) throw error
      tellUnwritten()
    }
  }
}

let told = false

/** Once in a command, whatever it grades. */
function tellUnwritten(): void {
  if (!told)
    console.error(' • Read only: what steps need to remember is not written into the cluster. YES=1 allows it.')
  told = true
}

/**
 * Adds notes to what the cluster holds of a lab, or replaces those of the same key. What somebody else writes meanwhile
 * stays: a session watches while its learner answers in another terminal.
 */
export async function writeNotes(
  { core }: KubeClient,
  lab: number,
  data: Readonly<Record<string, string>>,
): Promise<void> {
  const { ApiException, PatchStrategy, setHeaderOptions } = await import('../cluster/kubernetes.ts')
  const place = { name: notesName(lab), namespace: NOTES_NAMESPACE }
  const merge = setHeaderOptions('Content-Type', PatchStrategy.MergePatch)
  try {
    await core.patchNamespacedConfigMap({ ...place, body: { data } }, merge)
  } catch (error) {
    if (!(error instanceof ApiException && error.code === 404)) throw error
    const metadata = { ...place, labels: ownLabel }
    await core.createNamespacedConfigMap({ namespace: NOTES_NAMESPACE, body: { metadata, data } })
  }
}
