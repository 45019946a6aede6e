// Diagnoses in free text: what learners write names exactly the cause that they mean, salads of
// words name none.

import { describe, expect, test } from 'vitest'
import { causesNamed, describeMissing } from '../../course/incident/key-facts.ts'
import type { IncidentEnvironment } from '../../course/incident/shop.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { incidents } from '../../labs/08-incidents/incidents/all.ts'
import { keyFacts } from '../../labs/08-incidents/incidents/key-facts.ts'

const nodes = ['k8s-guide-control-plane', 'k8s-guide-worker', 'k8s-guide-worker2']
const environment: IncidentEnvironment = {
  nodes,
  nodeAddresses: ['172.18.0.2', '172.18.0.3', '172.18.0.4'],
  node: 'k8s-guide-worker2',
  customer: '10.244.1.7',
  shop: '10.96.7.7',
  nodePort: 30880,
  facts: {},
}

/** What learners may write, beside the example of each cause. */
const sentences: Record<string, string[]> = {
  'selector-typo': [
    'service shop selects app=shoop, no pod has that label',
    'Typo in the selector of svc/shop',
    'The labels in the selector of Service "shop" do not match the Pods, so there are no endpoints.',
  ],
  'wrong-port-name': [
    'targetPort of service shop is named http but the pods call their port web',
    'the service refers to a target port name that does not exist in the pods',
    'svc shop: targetPort "http" is unknown to the Pods, nothing listens under that name',
  ],
  'wrong-target-port': [
    'service shop sends to targetPort 8080 where nginx does not listen',
    'wrong target port in the service: 8080 instead of 80 (named web)',
    'No process in the Pods listens on the port of the Service shop',
  ],
  'unready-backends': [
    'readiness probe of the deployment asks for /healthz and gets 404',
    'pods of the shop are never ready because the probe uses a wrong path',
    "the shop's Pods aren't ready, their readiness probe fails",
  ],
  'hollow-probe': [
    'shop-next runs true as its readiness probe, nothing listens yet',
    "the pod of the next release is ready too early, it doesn't listen on port 80",
    'the probe of shop-next never fails, it always says ready',
  ],
  'evicted-agent': [
    'kube-proxy does not run on worker2, label kubernetes.io/os=linux-rt',
    'The DaemonSet has no pod on k8s-guide-worker2',
    "worker2 has lost its kube-proxy pod: the node selector doesn't match, rules are missing updates",
  ],
  'forgotten-canary': [
    'worker2 still runs IPVS mode, its kube-proxy is from kube-proxy-next',
    'the canary on k8s-guide-worker2 was forgotten: kube-proxy in another mode there',
    'node worker2 has a kube-proxy of a second daemonset, in mode ipvs',
  ],
  'foreign-proxy': [
    'label service-proxy-name=mesh on service shop, kube-proxy ignores it',
    'The Service shop is labelled for another proxy (mesh)',
  ],
  'missing-module': [
    "kube-proxy can't load ip_vs, modprobe.d forbids the module",
    'the nodes cannot load the kernel module ip_vs_rr, so kube-proxy crashes in IPVS mode',
  ],
  'lost-endpoint-rule': [
    'On worker2 the DNAT rule of a KUBE-SEP chain is missing',
    'one endpoint chain on k8s-guide-worker2 has no DNAT rule',
    'KUBE-SEP-ABC lacks its dnat rule on worker2',
  ],
  'missing-masquerade': [
    'the control-plane has no jump from POSTROUTING to KUBE-POSTROUTING',
    'POSTROUTING chain on k8s-guide-control-plane lost the masquerade jump',
    'node control-plane does not masquerade forwarded packets, jump deleted',
  ],
  'stale-reject': [
    'old iptables chains still reject the node port after the switch to ipvs',
    'stale REJECT rule in KUBE-EXTERNAL-SERVICES from the previous mode',
  ],
  untracked: [
    'raw PREROUTING on worker2 has a NOTRACK rule for the shop',
    'a rule in the raw table of k8s-guide-worker2 exempts the packets from conntrack',
  ],
  'ip-forward-off': [
    'net.ipv4.ip_forward=0 on worker2',
    'ip forwarding is turned off in the kernel of k8s-guide-worker2',
    "the kernel of worker2 doesn't forward: sysctl ip_forward is off",
  ],
  'stale-connection': [
    'stale conntrack entry of the udp flow to a deleted pod',
    'conntrack entry for port 5300 points to a pod that does not exist any more',
  ],
  'port-out-of-range': [
    'nodePort 20080 of the service is not in the range',
    'the api server rejects the release: node port out of range 30000-32767',
  ],
  'local-policy': [
    'externalTrafficPolicy: Local on shop-np',
    'Service shop-np: external traffic policy is Local, no local pod on the control plane',
  ],
  'internal-policy': [
    'internalTrafficPolicy of service shop is Local',
    'svc shop has internal traffic policy local',
  ],
  'close-endpoints': [
    'trafficDistribution of service shop is PreferClose',
    'svc shop: hints keep each client in one zone',
    'The Service prefers endpoints in the same zone, kube-proxy ignores the other Pod',
  ],
  'session-affinity': [
    'sessionAffinity ClientIP on the service',
    'service shop has sticky sessions (affinity), so every request goes to the same pod',
  ],
  'source-ranges': [
    'loadBalancerSourceRanges of shop-lb does not contain the warehouse',
    'service shop-lb: wrong source ranges 198.51.100.0/24',
  ],
  'leftover-virtual-server': [
    'left over IPVS virtual server for the old service on worker2',
    'stale address on kube-ipvs0 of k8s-guide-worker2, from IPVS mode',
  ],
  'marked-virtual-server': [
    'fwmark virtual server 16384 on control-plane takes the packets first',
    'another IPVS virtual server (FWM) catches packets with mark 0x4000 on the control-plane',
  ],
  'weight-zero': [
    'real servers have weight 0 on worker2',
    'ipvs on k8s-guide-worker2: weight of the real servers was set to zero (drained)',
  ],
  'unknown-scheduler': [
    "kube-proxy's config names scheduler fastest which does not exist",
    'unknown IPVS scheduler in the configmap of kube-proxy',
  ],
  'address-janitor': [
    'pod net-janitor deletes the cluster IP from kube-ipvs0 on worker2',
    'a program on worker2 keeps removing the address of the shop from kube-ipvs0',
  ],
  'own-firewall': [
    'INPUT rule close-shop on worker2 drops replies',
    'a firewall rule on k8s-guide-worker2 drops the replies to the node itself',
  ],
}

const named = (text: string) => causesNamed(text, keyFacts, nodes).map(({ id }) => id)

test('every incident has key facts, and nothing else has', () => {
  expect(Object.keys(keyFacts).sort()).toEqual(incidents.map(({ id }) => id).sort())
  expect(Object.keys(sentences).sort()).toEqual(Object.keys(keyFacts).sort())
})

describe.each(Object.entries(keyFacts))('%s', (id, facts) => {
  test('its example and what learners write name it, and no other cause', () => {
    for (const text of [facts.example(environment), ...(sentences[id] ?? [])]) {
      expect({ text, named: named(text) }).toEqual({ text, named: [id] })
      expect({ text, named: named(text.toUpperCase()) }).toEqual({ text, named: [id] })
    }
  })

  test('a cause on one node is not named without the node, nor with two', () => {
    if (!facts.node) return
    const example = facts.example(environment)
    const node = facts.node(environment)
    expect(causesNamed(example, keyFacts, nodes)).toEqual([{ id, node }])
    expect(named(example.replaceAll(node, 'the node'))).not.toContain(id)
    expect(named(`${example} Not on k8s-guide-worker.`)).not.toContain(id)
  })

  test('the steps that it sends learners to exist', () => {
    const unknown = facts.reads.filter((place) => {
      const [lab, step] = place.split('/')
      return !readLab(Number(lab)).steps.some((one) => one.id === step)
    })
    expect(unknown).toEqual([])
  })
})

test.each([
  ['', 'names no object'],
  ['the service', 'one kind of fact'],
  ['selector', 'one kind of fact'],
  ['it does not work', 'no object'],
  ['kube-proxy is broken on worker2', 'no part'],
  ['selector-typo', 'the id of a cause'],
])('%j names no cause: %s', (text) => {
  expect(named(text)).toEqual([])
})

test('sentences that try several causes at once name at most one, and those of five or more none', () => {
  const examples = Object.values(keyFacts).map(({ example }) => example(environment))
  expect(named(examples.join(' '))).toEqual([])
  examples.forEach((_, start) => {
    const five = Array.from({ length: 5 }, (_, at) => examples[(start + at * 5) % examples.length])
    const here = named(five.join(' ').replaceAll('k8s-guide-control-plane', environment.node))
    expect({ five, here }).toEqual({ five, here: [] })
  })
})

test('what a sentence lacks is told without regard to the cause', () => {
  expect(describeMissing('the service', keyFacts, nodes)).toContain('the kind of fault')
  expect(describeMissing('it is slow', keyFacts, nodes)).toContain('an object')
  expect(describeMissing('the service selector drops', keyFacts, nodes)).toContain('names no node')
})
