import { refusalOf } from '../cluster/doctor/choose.ts'
import type { LabNeeds } from '../cluster/doctor/facts.ts'
import type { Cluster } from '../cluster/driver.ts'
import { Trouble } from './failure.ts'
import type { LabDefinition } from './lab-definition.ts'

/** What of a lab decides on which clusters it can run. */
export const needsOf = ({ number, title, kernel = [], kernelOfSteps = [] }: LabDefinition): LabNeeds => ({
  number,
  title,
  kernel,
  kernelOfSteps,
})

/** Throws Trouble where the kernel of a cluster that is up lacks what a lab needs: that is no fault of the learner's. */
export async function mustRunHere(cluster: Cluster, lab: LabDefinition): Promise<void> {
  const { kernel } = needsOf(lab)
  // Most labs need nothing of the kernel, and the embedded cluster's has what they need.
  if (kernel.length === 0) return
  const { kernelLackOf } = await import('../cluster/doctor/gather.ts')
  const lacking = await kernelLackOf(cluster, kernel)
  if (lacking.length === 0) return
  const { driver, name } = cluster
  const where = `the kernel of the ${driver} cluster "${name}" has no ${lacking.join(' and no ')}`
  const elsewhere =
    driver === 'embedded' ? `\`NAME=${name}-uml KERNEL=uml make lab-${lab.number}\`` : 'CLUSTER=embedded'
  throw new Trouble(refusalOf(lab, `${where}, that of ${elsewhere} has`))
}
