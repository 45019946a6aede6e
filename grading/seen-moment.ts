import type { CheckContext } from './check-context.ts'
import { onNode } from './difference-report.ts'
import { Failure, fail, NotApplicable } from './failure.ts'

const isNote = (value: unknown): value is object => typeof value === 'object' && value !== null

/**
 * A step about a moment. Once it was seen on the live cluster it holds; a capture is never believed but asked again, and one of
 * another moment proves nothing.
 * @param prove throws as a check does, and returns what to keep in the cluster's notes
 */
export async function holdsOnceSeen(
  { live, notes }: CheckContext,
  note: string,
  prove: () => Promise<object>,
): Promise<void> {
  if (live && notes.read(note, isNote)) return
  try {
    notes.keep(note, await prove())
  } catch (error) {
    if (live || !(error instanceof Failure)) throw error
    throw new NotApplicable(`this capture was taken at another moment (${error.message}: ${error.detail.look})`)
  }
}

/** What a way back must have begun with. */
interface SeenBefore {
  mode: 'userspace' | 'nftables'
  /** Key of the note that the step about this mode keeps. */
  note: string
  look: string
  /** How that step is passed. */
  hint: string
}

/** Fails unless the grader has seen every node in that mode; a capture of an earlier time can't show it. */
export function mustHaveSeen({ notes, nodes, live }: CheckContext, { mode, note, look, hint }: SeenBefore): void {
  if (notes.read(note, isNote) !== undefined) return
  if (!live) throw new NotApplicable(`${mode} mode had not been seen when this capture was taken`)
  fail({
    look: onNode(nodes.at(-1)?.name ?? '', look),
    expected: `that ${mode} mode was seen on every node before the way back`,
    actual: 'the grader has not seen it',
    hint,
  })
}
