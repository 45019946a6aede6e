import type { Capture } from '../../cluster/capture-folder.ts'

/**
 * Rules that a learner adds in a lab are identified by their comment: `probe` in lab 1, `lab-N…`
 * elsewhere.
 */
export const isLearnersRule = (line: string): boolean =>
  /--comment "?(?:probe|lab-\d+)(?![A-Za-z0-9])/.test(line)

/** One change of a good capture, as from a learner's mistake or a broken node. */
export interface Mutation {
  /** What is done: `drop rule`, `alter port`, `change weight`. */
  operator: string
  /** The node that is changed; absent for an object of the API. */
  node?: string
  /**
   * The place that is changed: `nat KUBE-SERVICES`, `set KUBE-CLUSTER-IP`,
   * `virtual server 10.96.0.1:443`, `Service default/web`.
   */
  place: string
  /** What is changed there, for printed lists. */
  detail: string
  /** A finding is about this mutation when it names one of these. */
  mentions: readonly string[]
  apply(capture: Capture): Capture
}

/**
 * A change of the text of one file. The last word of its place is one of the words of a finding
 * about it.
 */
export interface FileEdit extends Omit<Mutation, 'apply' | 'node' | 'mentions'> {
  mentions?: readonly string[]
  edit(text: string): string
}

/** What an edit is about; several edits of one place share it. */
type EditPlace = Omit<FileEdit, 'operator' | 'edit'>

/**
 * The edits of one line: each alteration with the lines that replace it. One that changes nothing
 * is left out.
 */
export function* lineEdits(
  lines: readonly string[],
  at: number,
  place: EditPlace,
  alterations: Readonly<Record<string, readonly string[]>>,
): Generator<FileEdit> {
  for (const [operator, instead] of Object.entries(alterations))
    if (instead.length !== 1 || instead[0] !== lines[at])
      yield { ...place, operator, edit: () => lines.toSpliced(at, 1, ...instead).join('\n') }
}
