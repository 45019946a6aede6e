// The load balancer's controller for one kind cluster:  daemon.ts NAME ENGINE.  It ends when the cluster is deleted.
import { setTimeout as pause } from 'node:timers/promises'
import { reasonOf } from '../../../host/main.ts'
import { KindCluster } from '../../kind.ts'
import { kubeClient } from '../../kube-client.ts'
import type { EngineName } from '../engine.ts'
import { nodeContainers } from '../node-containers.ts'
import { readPool } from './appliance.ts'
import { balanceOnce } from './controller.ts'

/** Interval of the rounds; cloud load balancers query health checks every few seconds. */
const roundMs = 1000
/** The cluster counts as deleted after this many consecutive rounds without a node container. */
const missedRoundsLimit = 30

const [, , name = '', engineName] = process.argv
const engine: EngineName = engineName === 'podman' ? 'podman' : 'docker'
const log = (line: string) => console.log(`${new Date().toISOString()} ${line}`)

process.on('SIGTERM', () => process.exit(0))

const client = await kubeClient(new KindCluster(name, engine))
const pool = await readPool(engine)
log(`gives addresses from ${pool.first} to ${pool.last}`)
let missed = 0
let lastFault = ''
while (missed < missedRoundsLimit) {
  try {
    await balanceOnce({ engine, cluster: name, client, pool, log })
    missed = 0
    lastFault = ''
  } catch (error) {
    const fault = reasonOf(error)
    if (fault !== lastFault) log(fault)
    lastFault = fault
    const containers = await nodeContainers(engine, name).catch(() => undefined)
    missed = containers?.length === 0 ? missed + 1 : 0
  }
  await pause(roundMs)
}
log('the cluster was deleted')
