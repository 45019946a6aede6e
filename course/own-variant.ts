import type { KubeClient } from '../cluster/kube-client.ts'
import { ApiException } from '../cluster/kubernetes.ts'
import { NOTES_NAMESPACE } from '../grading/lab-notes.ts'
import { learnerName } from '../grading/signature.ts'
import { LEARNER_MAP, type Variant, variantFor } from '../grading/variant.ts'

/**
 * The variant that this cluster's labs have. A learner given by LEARNER is written down in the cluster, where the checks and
 * the next command find it; without one it is the learner that the cluster already names.
 * @throws Error when LEARNER can't name anybody
 */
export async function ownVariant({ core }: KubeClient, wanted = process.env.LEARNER): Promise<Variant> {
  const place = { name: LEARNER_MAP, namespace: NOTES_NAMESPACE }
  const written = await core.readNamespacedConfigMap(place).then(
    ({ data }) => data?.learner,
    (error) => {
      if (error instanceof ApiException && error.code === 404) return undefined
      throw error
    },
  )
  if (!wanted || wanted === written) return variantFor(written)
  const body = { metadata: place, data: { learner: learnerName(wanted) } }
  if (written === undefined) await core.createNamespacedConfigMap({ namespace: NOTES_NAMESPACE, body })
  else await core.replaceNamespacedConfigMap({ ...place, body })
  return variantFor(wanted)
}
