// What the environment sets for every lab of a cluster, kept in ConfigMaps for the checks and later commands.

import { consent } from '../cluster/consent.ts'
import type { Cluster } from '../cluster/driver.ts'
import type { KubeClient } from '../cluster/kube-client.ts'
import { CLASS_MARK_FILE } from '../cluster/node-report.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { CLASS_MAP, learnerName, wordFromEnvironment } from '../grading/class-key.ts'
import { readConfigMap, writeConfigMap } from '../grading/lab-notes.ts'
import { LEARNER_MAP, type Variant, variantFor } from '../grading/variant.ts'
import type { Progress } from '../host/progress.ts'

/**
 * The variant of this cluster's labs. The learner in LEARNER is stored in the cluster; without LEARNER, the stored one is used.
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

/** Writes the mark of a class word ($1) for this boot if it is missing. */
const MARK = `umask 022
mark=$(printf '%s %s' "$1" "$(cat /proc/sys/kernel/random/boot_id)" | sha256sum) && mark=\${mark%% *} || exit 1
{ read -r written <${CLASS_MARK_FILE}; } 2>/dev/null && [ "$written" = "$mark" ] && exit 0
mkdir -p ${CLASS_MARK_FILE.replace(/\/[^/]*$/, '')} && printf '%s\\n' "$mark" >${CLASS_MARK_FILE}`

/**
 * Puts the class's word (CLASS, or CLASS_KEY_FILE's) into the cluster: in a ConfigMap, and as a mark in a file under /run on
 * each node. A Service or a rule would change the counts of the labs. A word that the cluster already has is written again
 * to nodes that have restarted.
 * @throws Error when the word is invalid, or a node can't be written to
 */
export async function putClassWord(
  cluster: Cluster,
  client: KubeClient,
  progress: Progress,
): Promise<void> {
  const before = (await readConfigMap(client, CLASS_MAP))?.word
  const word = wordFromEnvironment() ?? before
  if (!word) return
  await consent(cluster, `write a file under /run on every node (the class's word)`)
  if (word !== before) {
    await writeConfigMap(client, CLASS_MAP, { word })
    progress.note(
      `The cluster now contains the word of your class${before ? ` in place of "${before}"` : ''}.`,
    )
  }
  const nodes = await cluster.nodes()
  await Promise.all(
    nodes.map(async (node) => {
      const { exitCode, stderr } = await runOnNode(cluster, node, MARK, { args: [word] })
      if (exitCode !== 0)
        throw new Error(`The word of the class can't be written on ${node}: ${stderr.trim()}.`)
    }),
  )
}
