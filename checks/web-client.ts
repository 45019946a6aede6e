// The Pods of web and the learner's client Pod, as the checks of several labs need them.

import type { CheckContext } from '../grading/check-context.ts'
import {
  expectReadyPod,
  WEB_NAMESPACE,
  type WebService,
  webService,
} from '../grading/expect-object.ts'
import { expectThat } from '../grading/failure.ts'
import { fromPod, type PodRequester } from '../grading/requests.ts'
import type { Snapshot } from '../grading/snapshot.ts'
import { variantIn } from '../grading/variant.ts'

/** The learner's client Pod, from the manifest in the folder of a lab. Fails if it is not ready. */
export function clientPod({ snapshot }: Pick<CheckContext, 'snapshot'>, lab: string): PodRequester {
  const pod = expectReadyPod(snapshot.find('Pod', WEB_NAMESPACE, 'client'), 'client', {
    inspect: 'kubectl get pod client -o wide',
    expected: 'a Pod client that is ready to send requests',
    next: `kubectl apply -f labs/${lab}/manifests/client.yaml`,
  })
  return fromPod('client', pod)
}

/** The endpoints of web are as many ready Pods as the variant requires, on at least two nodes. */
export function backendsOnTwoNodes({ snapshot }: CheckContext): void {
  const { name, backends } = webService(snapshot)
  const { replicas } = variantIn(snapshot)
  const nodes = new Set(backends.map(({ node }) => node))
  expectThat(backends.length >= replicas && nodes.size >= 2, {
    inspect: 'kubectl get pods,endpointslices -l app=web -o wide',
    expected: `${replicas} ready endpoints, on two nodes or more, in the EndpointSlice of ${name}`,
    ...(backends.length < replicas
      ? tooFew(snapshot, name, backends.length, replicas)
      : allOnOneNode(backends)),
  })
}

function tooFew(snapshot: Snapshot, name: string, ready: number, replicas: number) {
  const deployment = snapshot.find('Deployment', WEB_NAMESPACE, name)
  const wanted = Number(deployment?.spec?.replicas ?? 1)
  return {
    actual: `${ready} ready ${ready === 1 ? 'endpoint' : 'endpoints'}`,
    ...(deployment && wanted < replicas
      ? {
          hint: `Deployment ${name} has ${wanted} of the ${replicas} Pods that this lab needs:`,
          next: `kubectl scale deployment ${name} --replicas=${replicas}`,
        }
      : {
          hint: 'The events of the Pods show why they are not ready:',
          next: 'kubectl describe pods -l app=web',
        }),
  }
}

/** Schedulers may do that, as when a Deployment was scaled down. */
const allOnOneNode = (backends: WebService['backends']) => ({
  actual: `${backends.length} endpoints, all on ${backends[0]?.node}`,
  hint: 'Delete one of the Pods: the one that replaces it goes to a node that has none.',
  next: `kubectl delete pod ${backends.at(-1)?.pod}`,
})
