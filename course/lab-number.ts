import { UserError } from '../host/main.ts'

/** Reads the number of a lab. Throws a UserError that shows how it is written. */
export function labNumber(text: string | undefined): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new UserError(`"${text ?? ''}" is no number of a lab: write it as in \`make check-2\`.`)
}
