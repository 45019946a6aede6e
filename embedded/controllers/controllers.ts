import type { AddressPool } from '../../host/address-pool.ts'
import type { Api } from '../apiserver/api.ts'
import { StatusError } from '../apiserver/status-error.ts'
import { ControllerContext } from './context.ts'
import { startDaemonSetController } from './daemonset.ts'
import { startDeploymentController } from './deployment.ts'
import { type ApiServerEndpoint, createKubernetesEndpoints, startEndpointsController } from './endpoints.ts'
import { startGarbageCollector } from './garbage-collector.ts'
import { startCronJobController, startJobController } from './job.ts'
import { defaultLoadBalancerPool, startLoadBalancerController } from './load-balancer.ts'
import { startReplicaSetController } from './replicaset.ts'
import { startScheduler } from './scheduler.ts'

export interface ControllerOptions {
  /** The address pool of Services of type LoadBalancer; default 172.18.255.200–172.18.255.250. */
  loadBalancerPool?: AddressPool
  /** The address of the API server in the cluster's network; if absent, the Service `kubernetes` has no endpoints. */
  apiServerEndpoint?: ApiServerEndpoint
  /** The clock of CronJobs. */
  now?: () => number
  /** Called for errors of this program; errors of the API are only retried. */
  report?: (error: unknown) => void
}

/**
 * Starts the controllers of kube-controller-manager and the scheduler on the API of the same process. They handle each
 * change in the next macrotask. `stop` ends all of them and their timers; `isIdle` returns true if all changes have
 * been handled.
 */
export function startControllers(
  api: Api,
  options: ControllerOptions = {},
): Pick<ControllerContext, 'isIdle' | 'stop'> {
  const context = new ControllerContext(api, (error) => {
    if (!(error instanceof StatusError)) options.report?.(error)
  })
  startGarbageCollector(context)
  startDeploymentController(context)
  startReplicaSetController(context)
  startDaemonSetController(context)
  startJobController(context)
  startCronJobController(context, options.now)
  startScheduler(context)
  startEndpointsController(context)
  startLoadBalancerController(context, options.loadBalancerPool ?? defaultLoadBalancerPool)
  if (options.apiServerEndpoint) createKubernetesEndpoints(api, options.apiServerEndpoint)
  return context
}
