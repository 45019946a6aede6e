import { type KubeClient, unlessCode } from '../cluster/kube-client.ts'
import { learnerName } from '../grading/class-key.ts'
import { NOTES_NAMESPACE } from '../grading/lab-notes.ts'
import { LEARNER_MAP, type Variant, variantFor } from '../grading/variant.ts'

/**
 * The variant of this cluster's labs. The learner in LEARNER is stored in the cluster for the checks and later commands;
 * without LEARNER, the stored one is used.
 * @throws Error when LEARNER is not a valid name
 */
export async function ownVariant({ core }: KubeClient, wanted = process.env.LEARNER): Promise<Variant> {
  const place = { name: LEARNER_MAP, namespace: NOTES_NAMESPACE }
  const map = await unlessCode(404, core.readNamespacedConfigMap(place))
  const written = map?.data?.learner
  if (!wanted || wanted === written) return variantFor(written)
  const body = { metadata: place, data: { learner: learnerName(wanted) } }
  if (written === undefined) await core.createNamespacedConfigMap({ namespace: NOTES_NAMESPACE, body })
  else await core.replaceNamespacedConfigMap({ ...place, body })
  return variantFor(wanted)
}
