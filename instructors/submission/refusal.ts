import { plainText, shortened } from '../../host/plain-text.ts'

/** A submission that is not judged at all. The message is one sentence, safe to print, that names what is wrong with it. */
export class Refusal extends Error {}

/** Ends the reading of a submission. */
export function refuse(sentence: string): never {
  throw new Refusal(sentence)
}

/** Untrusted text for one of our messages: short, on one line, with its control characters made visible. */
export function quoted(text: string): string {
  return `"${shortened(plainText(text.slice(0, 400)).replaceAll('\n', '\\n'), 80)}"`
}
