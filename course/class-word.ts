import { consent } from '../cluster/consent.ts'
import type { Cluster } from '../cluster/driver.ts'
import { type KubeClient, unlessCode } from '../cluster/kube-client.ts'
import { CLASS_MARK_FILE } from '../cluster/node-report.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { CLASS_MAP, wordFromEnvironment } from '../grading/class-key.ts'
import { NOTES_NAMESPACE } from '../grading/lab-notes.ts'
import type { Progress } from '../host/progress.ts'

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
  { core }: KubeClient,
  progress: Progress,
  wanted = wordFromEnvironment(),
): Promise<void> {
  const place = { name: CLASS_MAP, namespace: NOTES_NAMESPACE }
  const map = await unlessCode(404, core.readNamespacedConfigMap(place))
  const written = map && (map.data?.word ?? '')
  const word = wanted ?? written
  if (!word) return
  await consent(cluster, `write a file under /run on every node (the class's word)`)
  if (word !== written) {
    const body = { metadata: place, data: { word } }
    if (written === undefined) await core.createNamespacedConfigMap({ namespace: NOTES_NAMESPACE, body })
    else await core.replaceNamespacedConfigMap({ ...place, body })
    progress.note(`The cluster now contains the word of your class${written ? ` in place of "${written}"` : ''}.`)
  }
  const nodes = await cluster.nodes()
  await Promise.all(
    nodes.map(async (node) => {
      const { exitCode, stderr } = await runOnNode(cluster, node, MARK, { args: [word] })
      if (exitCode !== 0) throw new Error(`The word of the class can't be written on ${node}: ${stderr.trim()}.`)
    }),
  )
}
