// What the environment sets for every lab of a cluster, kept in ConfigMaps for the checks and later
// commands.

import type { KubeClient } from '../cluster/kube-client.ts'
import { CLASS_MAP, learnerName, wordFromEnvironment } from '../grading/class-key.ts'
import { readConfigMap, writeConfigMap } from '../grading/lab-notes.ts'
import { LEARNER_MAP, type Variant, variantFor } from '../grading/variant.ts'
import type { Progress } from '../host/progress.ts'

/**
 * The variant of this cluster's labs. The learner in LEARNER is stored in the cluster; without
 * LEARNER, the stored one is used.
 * @throws Error when LEARNER is not a valid name
 */
export async function ownVariant(
  client: KubeClient,
  wanted = process.env.LEARNER,
): Promise<Variant> {
  const learner = (await readConfigMap(client, LEARNER_MAP))?.learner
  if (!wanted || wanted === learner) return variantFor(learner)
  await writeConfigMap(client, LEARNER_MAP, { learner: learnerName(wanted) })
  return variantFor(wanted)
}

/**
 * Puts the class's word (CLASS, or CLASS_KEY_FILE's) into a ConfigMap of the cluster: a Service or
 * a rule would change the counts of the labs.
 * @throws Error when the word is invalid
 */
export async function putClassWord(client: KubeClient, progress: Progress): Promise<void> {
  const word = wordFromEnvironment()
  if (!word) return
  const before = (await readConfigMap(client, CLASS_MAP))?.word
  if (word === before) return
  await writeConfigMap(client, CLASS_MAP, { word })
  progress.note(
    `The cluster now contains the word of your class${before ? ` in place of "${before}"` : ''}.`,
  )
}
