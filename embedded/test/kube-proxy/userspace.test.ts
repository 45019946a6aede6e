// The same Service with an endpoint that refuses connections, on one node in userspace mode
// and on another in iptables mode.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeMode } from '../../../dataplane/kube-proxy/config-conf.ts'
import { waitFor } from '../../../host/wait.ts'
import {
  controlPlane,
  type NodeName,
  type Running,
  ThreeNodes,
  webIP,
  webPods,
  worker,
  worker2,
} from './three-nodes.ts'

const VERSION = 'v1.20.0'
/** The control plane's address: a host where no process listens on port 80, so that it refuses. */
const DEAD = '172.18.0.2'
const DNS = '10.96.0.10'

let nodes: ThreeNodes
let userspace: Running

beforeAll(async () => {
  nodes = await ThreeNodes.start()
  const endpoint = (address: string) => ({ addresses: [address], conditions: { ready: true } })
  nodes.api.patch('endpointslices', 'default', 'web-abcde', {
    endpoints: [endpoint(webPods[worker]), endpoint(DEAD), endpoint(webPods[worker2])],
  })
  nodes.addService('dns', DNS, {
    ports: [{ name: 'dns', port: 53, protocol: 'UDP', targetPort: 5353 }],
  })
  nodes.api.create('endpointslices', 'default', {
    metadata: { name: 'dns-abcde', labels: { 'kubernetes.io/service-name': 'dns' } },
    addressType: 'IPv4',
    ports: [{ name: 'dns', port: 5353, protocol: 'UDP' }],
    endpoints: [endpoint(webPods[worker2])],
  })
  const echo = await nodes.machine.spawn(['socat', 'UDP4-LISTEN:5353,fork', 'EXEC:cat'], {
    netns: 'web2',
  })
  echo.stdout.resume()
  userspace = startIn(worker, 'userspace')
  startIn(worker2, 'iptables')
  await waitFor('both nodes to have rules', 20_000, async () => {
    const [one, other] = await Promise.all([
      natChain(worker, 'KUBE-PORTALS-HOST'),
      natChain(worker2, 'KUBE-SERVICES'),
    ])
    return one.length > 0 && other.length > 0
  })
})

afterAll(async () => {
  await nodes?.stopProxies()
  await nodes?.stop()
})

function startIn(node: NodeName, mode: string): Running {
  nodes.configure((text) => writeMode(text, { mode }))
  return nodes.startProxy(node, VERSION)
}

async function natChain(node: NodeName, chain: string): Promise<string[]> {
  const state = await nodes.state(node)
  return (state.iptables.get('nat')?.get(chain)?.rules ?? []).map(({ spec }) => spec)
}

test('a connection to the failing endpoint is made to another one in userspace mode, in turn', async () => {
  expect(await nodes.ask('client1', webIP, 12)).toEqual({ web1: 6, web2: 6 })
  expect(await nodes.ask(worker, webIP, 4)).toEqual({ web1: 2, web2: 2 })
  const failed = () => userspace.log.filter((line) => line.includes('"Dial failed"'))
  // Three turns serve two connections, so that 16 of them meet it seven times, or eight where it
  // is before the last.
  await waitFor(
    'a line in the log for each connection that went on',
    5000,
    async () => failed().length >= 7,
  )
  expect(failed().length).toBeLessThanOrEqual(8)
  expect(failed().every((line) => line.includes(`endpoint="${DEAD}:80"`))).toBe(true)
})

test('in iptables mode it fails, about one time in three', async () => {
  const { none = 0, web1 = 0, web2 = 0 } = await nodes.ask('client2', webIP, 40)
  expect(none + web1 + web2).toBe(40)
  expect(none).toBeGreaterThan(0)
  expect(web1 + web2).toBeGreaterThan(0)
})

test('datagrams and their answers are relayed', async () => {
  expect(await nodes.sh('client1', `echo hello | socat -t1 - UDP4:${DNS}:53`)).toBe('hello\n')
})

test("the rules are those of a genuine 1.20, and Pods see connections from kube-proxy's address", async () => {
  const wanted = nodes.expected(await nodes.state(worker), worker, 'userspace', VERSION)
  for (const chain of ['KUBE-PORTALS-CONTAINER', 'KUBE-PORTALS-HOST', 'PREROUTING', 'OUTPUT']) {
    const specs = wanted.iptables
      .get('nat')
      ?.get(chain)
      ?.rules.map(({ spec }) => spec)
    expect(await natChain(worker, chain), chain).toEqual(specs)
  }
  expect(await nodes.sh('client1', `curl -s --max-time 2 http://${webIP}/`)).toMatch(
    /^web[12] (10\.244\.1\.1|172\.18\.0\.3)$/m,
  )
})

test('changes of the endpoints take effect, and without endpoints the connection ends', async () => {
  nodes.setEndpoints('web', [worker2])
  await waitFor(
    'the relay to follow',
    10_000,
    async () => (await nodes.ask('client1', webIP, 3)).web2 === 3,
  )
  nodes.setEndpoints('web', [])
  await waitFor(
    'no endpoint to answer',
    10_000,
    async () => (await nodes.ask('client1', webIP, 1)).none === 1,
  )
  expect(userspace.log.at(-1)).toContain('"Failed to connect to balancer"')
})

test('the listeners end with kube-proxy, and a current kube-proxy refuses the mode', async () => {
  await userspace.container.stop()
  expect(await nodes.sh(worker, 'ss -Hltun | grep -c :3276 || true')).toBe('0\n')
  nodes.configure((text) => writeMode(text, { mode: 'userspace' }))
  const { container, log } = nodes.startProxy(controlPlane)
  expect(await container.exited).toBe(1)
  expect(log.at(-1)).toContain('must be iptables,ipvs,nftables')
})
