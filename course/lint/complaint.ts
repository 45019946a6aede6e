/** One thing that is wrong with the course. */
export interface Complaint {
  /** The file to open, with the line where that is known. */
  file: string
  /** One sentence that says what must be so. */
  text: string
}

/** A thrown value as a part of such a sentence. */
export const oneLine = (error: unknown) =>
  (error instanceof Error ? error.message : String(error)).replace(/\s*\n\s*/g, ' ').slice(0, 400)

/** What a scaffold leaves where something has to be written. */
export const UNWRITTEN = '✎'
