import type { CheckContext } from '../../grading/check-context.ts'
import { Failure, NotApplicable } from '../../grading/failure.ts'

const isNote = (value: unknown): value is object => typeof value === 'object' && value !== null

/**
 * A step about a moment. Once it was seen on the live cluster it holds; a capture is never believed but asked again, and one of
 * another moment proves nothing.
 * @param prove throws as a check does, and returns what to keep in the cluster's notes
 */
export async function atItsMoment(
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
