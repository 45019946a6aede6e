import type { CheckContext } from '../../grading/check-context.ts'
import { onNode } from '../../grading/difference-report.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'

const isNote = (value: unknown): value is object => typeof value === 'object' && value !== null

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
