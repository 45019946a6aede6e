// Variables of make that are either on or off: FORCE=1, VERBOSE=1, YES=1 and the like.

import { Refusal } from '../dataplane/refusal.ts'

const ON = ['1', 'y', 'yes', 'true', 'on']
const OFF = ['', '0', 'n', 'no', 'false', 'off']

/**
 * Whether a text means yes or no, in any case; undefined for another text. A variable that is not
 * set means no.
 */
export function readSwitch(text = ''): boolean | undefined {
  const word = text.toLowerCase()
  return ON.includes(word) ? true : OFF.includes(word) ? false : undefined
}

/**
 * Whether a variable of make is on.
 * @throws Refusal for a text that means neither yes nor no
 */
export function isOn(name: string, env: NodeJS.ProcessEnv = process.env): boolean {
  const value = readSwitch(env[name])
  if (value !== undefined) return value
  throw new Refusal(
    `${name}="${env[name]}" means neither yes nor no: write ${name}=1 or ${name}=0.`,
  )
}
