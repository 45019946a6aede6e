import { UserError } from '../host/main.ts'

/** Reads the number of a lab. Throws a UserError with an example. */
export function labNumber(text: string | undefined): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new UserError(`"${text ?? ''}" is not the number of a lab: write it as in \`make check-2\`.`)
}
