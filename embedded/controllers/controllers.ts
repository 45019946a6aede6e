import { type AddressPool, poolOf } from '../../host/address-pool.ts'
import type { Api } from '../apiserver/api.ts'
import { StatusError } from '../apiserver/status-error.ts'
import { startAddressController } from '../load-balancer/assignments.ts'
import { bridge } from '../network/node-setup.ts'
import { ControllerContext } from './context.ts'
import { startDaemonSetController } from './daemonset.ts'
import { startDeploymentController } from './deployment.ts'
import { startEndpointsController } from './endpoints.ts'
import { startCronJobController, startJobController } from './job.ts'
import { startGarbageCollector } from './ownership.ts'
import { startReplicaSetController } from './replicaset.ts'
import { startScheduler } from './scheduler.ts'

export interface ControllerOptions {
  /** The addresses for Services of type LoadBalancer; default 172.18.255.200 to 172.18.255.250. */
  loadBalancerPool?: AddressPool
  /** The clock of CronJobs. */
  now?: () => number
  /** Called for errors of this program; errors of the API are only retried. */
  report?: (error: unknown) => void
}

/**
 * Starts the controllers of kube-controller-manager and the scheduler on an API of this process.
 * `stop` ends them and their timers.
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
  startAddressController(context, options.loadBalancerPool ?? poolOf(bridge.network))
  return context
}
