import type { KubeObject } from '../apiserver/api.ts'
import { hasReason } from '../apiserver/status-error.ts'
import type { ControllerContext } from './context.ts'
import { messageOf } from './error-message.ts'
import type { EventRecorder } from './events.ts'
import { controllerReference } from './ownership.ts'
import type { Pod, PodTemplate } from './resources.ts'

/** Makes and deletes Pods for a controller, with the Events that tell of it (pkg/controller's RealPodControl). */
export interface PodControl {
  /** A Pod from the template, controlled by `owner`. Records FailedCreate and throws what the API said. */
  create(owner: KubeObject, template: PodTemplate): Pod
  /** A Pod that is gone already is deleted well enough. Records FailedDelete and throws what the API said. */
  delete(owner: KubeObject, pod: Pod): void
}

export function createPodControl({ api }: ControllerContext, recorder: EventRecorder): PodControl {
  return {
    create(owner, { metadata, spec }) {
      const { namespace, name } = owner.metadata
      try {
        const pod = api.create<Pod>('pods', namespace, {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: {
            generateName: `${name}-`,
            ...(namespace && { namespace }),
            ...(metadata?.labels && { labels: metadata.labels }),
            ...(metadata?.annotations && { annotations: metadata.annotations }),
            ...(metadata?.finalizers && { finalizers: metadata.finalizers }),
            ownerReferences: [controllerReference(owner)],
          },
          spec,
        })
        recorder.event(owner, 'Normal', 'SuccessfulCreate', `Created pod: ${pod.metadata.name}`)
        return pod
      } catch (error) {
        recorder.event(owner, 'Warning', 'FailedCreate', `Error creating: ${messageOf(error)}`)
        throw error
      }
    },
    delete(owner, { metadata: { namespace, name } }) {
      try {
        api.delete('pods', namespace, name)
        recorder.event(owner, 'Normal', 'SuccessfulDelete', `Deleted pod: ${name}`)
      } catch (error) {
        if (hasReason(error, 'NotFound')) return
        recorder.event(owner, 'Warning', 'FailedDelete', `Error deleting: ${messageOf(error)}`)
        throw error
      }
    },
  }
}
