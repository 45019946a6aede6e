import { LEARNER_NAME, seedOf } from './class-key.ts'
import { configMapIn } from './lab-notes.ts'
import type { Snapshot } from './snapshot.ts'

/** The ConfigMap with the learner's name in the cluster; its only key is `learner`. */
export const LEARNER_MAP = 'learner'

/** The name and size of the labs' Service: the standard ones, or those of a learner's variant. */
export interface Variant {
  /** Name of the Deployment and its Service. Its Pods keep the label `app: web`. */
  name: string
  /** The Service's port; the Pods listen on 80. */
  port: number
  replicas: number
}

export const STANDARD: Variant = { name: 'web', port: 80, replicas: 2 }

const LETTERS = 'bcdfghjkmnpqrstvwxz'
const FIRST_PORT = 8000
const PORTS = 1000
const MOST_REPLICAS = 4

/**
 * The variant of a learner's seed, derived from the name only; the standard one without a learner.
 */
export function variantFor(learner: string | undefined): Variant {
  if (!learner) return STANDARD
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = Buffer.from(seedOf(learner), 'hex')
  const letter = (byte: number) => LETTERS[byte % LETTERS.length]
  return {
    name: `web-${letter(a)}${letter(b)}${letter(c)}`,
    port: FIRST_PORT + ((d * 256 + e) % PORTS),
    replicas: STANDARD.replicas + (f % (MOST_REPLICAS - STANDARD.replicas + 1)),
  }
}

/** The learner's name in the cluster's objects; undefined if missing or invalid. */
export function learnerIn(items: readonly unknown[]): string | undefined {
  const learner = configMapIn(items, LEARNER_MAP)?.data?.learner
  return learner !== undefined && LEARNER_NAME.test(learner) ? learner : undefined
}

export const variantIn = (snapshot: Snapshot): Variant => variantFor(learnerIn(snapshot.items))

/** The text or command of a lab with the names of a variant. */
export function personalise(text: string, { name, port, replicas }: Variant): string {
  if (name === STANDARD.name) return text
  return (
    text
      .replace(
        /\b(services?|deployments?|svc|deploy)([ /])web(:80)?(?![\w-])/gi,
        (_all, kind, by, at) => `${kind}${by}${name}${at ? `:${port}` : ''}`,
      )
      .replace(/\bweb-(np|lb)\b/g, `${name}-$1`)
      // Two more than the variant has: also an even number.
      .replace(/--replicas 4\b/g, replicas > STANDARD.replicas ? '--replicas 6' : '--replicas 4')
      .replace(/--port 80\b/g, `--port ${port} --target-port 80`)
      .replace(/\$WEB:80\b/g, () => `$WEB:${port}`)
      .replace(
        /(\bcurl\b[^\n;|]*\$(?:WEB|LB))(?![\w:])/g,
        (_all, request: string) => `${request}:${port}`,
      )
  )
}
