// The reference solution of lab 11, played by `make solve-11` and, without a terminal, by
// `make lab-11`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution, SolutionStep } from '../../course/lab-solution.ts'
import {
  answers,
  apply,
  independent,
  podsReady,
  predictions,
  rolledOut,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'
import { projectRoot } from '../../host/layout.ts'

const LAB = 11
const MANIFESTS = 'labs/11-which-pod/manifests'
const CLIENTS = `${MANIFESTS}/clients.yaml`
const EVERY_NODE = `${MANIFESTS}/every-node.yaml`
const NAMES = ['client', 'client-b'] as const

const answer = answers(LAB)
const predictAt = predictions(LAB)
const rollout = rolledOut('Deployment', 'web')

async function readVariables({ client: { core }, variant }: LabBench) {
  const pod = (name: string) => core.readNamespacedPod({ namespace: 'default', name })
  const [near, web] = await Promise.all([
    pod('client'),
    core.readNamespacedService({ namespace: 'default', name: variant.name }),
  ])
  return {
    NODE: near.spec?.nodeName ?? '',
    CLIENT: near.status?.podIP ?? '',
    WEB: web.spec?.clusterIP ?? '',
  }
}
const { exec, inPod } = withVariables(readVariables)

const patchDeployment: SolutionStep = {
  commands: [`kubectl patch deployment web --patch-file ${EVERY_NODE}`],
  play: (bench) =>
    bench.patch(
      'Deployment',
      bench.variant.name,
      parse(readFileSync(join(projectRoot, EVERY_NODE), 'utf8')),
    ),
}

/** Patches fields of the Service web. */
const patchWeb = (spec: object): SolutionStep => ({
  commands: [`kubectl patch service web -p '${JSON.stringify({ spec })}'`],
  play: (bench) => bench.patch('Service', bench.variant.name, { spec }),
})

/** Sets the nodeSelector of web's Pods, and waits until they are replaced. */
const placeWeb = (nodeSelector: object | null): SolutionStep => {
  const patch = { spec: { template: { spec: { nodeSelector } } } }
  return typing(
    {
      commands: [`kubectl patch deployment web -p '${JSON.stringify(patch)}'`],
      play: (bench) => bench.patch('Deployment', bench.variant.name, patch),
    },
    rollout,
  )
}

const DNS_RULE =
  'iptables -t raw -I PREROUTING -s $CLIENT -d 10.96.0.10 -p udp --dport 53 -m comment --comment lab-11-dns'

/**
 * Where the four rules count: before the translation, and after it by ClusterIP, Pod and original
 * destination.
 */
const PLACES = [
  '-t mangle -I PREROUTING -d $WEB',
  '-I FORWARD -d $WEB',
  '-I FORWARD -d 10.244.0.0/16',
  '-I FORWARD -m conntrack --ctorigdst $WEB',
]
const COUNT = '-s $CLIENT -m comment --comment lab-11-count'
const addCounters: SolutionStep = {
  commands: [
    `COUNT="${COUNT}"`,
    `for RULE in ${PLACES.map((rule) => `"${rule}"`).join(' ')}; do make exec NODE=$NODE CMD="iptables $RULE $COUNT"; done`,
  ],
  play: exec(...PLACES.map((rule) => ['$NODE', `"iptables ${rule} ${COUNT}"`] as const)).play,
}

const TABLES = ['raw', 'mangle', 'filter']
const deleteOwnRules = (table: string) =>
  `"iptables-save -t ${table} | sed -n 's/^-A \\(.*lab-11.*\\)/iptables -t ${table} -D \\1/p' | sh"`
const deleteCounters: SolutionStep = {
  commands: [
    `for T in ${TABLES.join(' ')}; do make exec NODE=$NODE CMD=${deleteOwnRules('$T')}; done`,
  ],
  play: exec(...TABLES.map((table) => ['$NODE', deleteOwnRules(table)] as const)).play,
}

/**
 * Two packets for each name that is tried: the complete one, and one for each word after "search".
 */
async function readLookupPackets(bench: LabBench): Promise<string> {
  const text = await bench.inPod('client', 'cat /etc/resolv.conf')
  const domains = /^search .*$/m.exec(text)?.[0].trim().split(/\s+/) ?? []
  return String(2 * domains.length)
}

export const solution: LabSolution = {
  steps: {
    stage: typing(web, apply(CLIENTS), patchDeployment, rollout, podsReady(...NAMES)),
    everywhere: independent(
      typing(
        predictAt('everywhere', '1/3', '1/3'),
        inPod('client', 'curl -s -o /dev/null --max-time 3 http://$WEB:80/?mine'),
      ),
    ),
    zone: typing(
      predictAt('zone', '2', '2'),
      patchWeb({ trafficDistribution: 'PreferClose' }),
      answer('zone', '1/2', '1/2'),
    ),
    fallback: typing(
      predictAt('fallback', 'other-zone', 'other-zone'),
      placeWeb({ 'topology.kubernetes.io/zone': 'zone-a' }),
    ),
    local: typing(
      predictAt('local', 'silence', 'silence'),
      patchWeb({ internalTrafficPolicy: 'Local' }),
      answer('local', 'DROP', 'DROP'),
    ),
    'same-node': typing(
      predictAt('same-node', "'forNodes, forZones'", 'forNodes, forZones'),
      placeWeb(null),
      patchWeb({ internalTrafficPolicy: 'Cluster', trafficDistribution: 'PreferSameNode' }),
      answer('same-node', 'same-zone', 'same-zone'),
    ),
    dns: typing(
      exec(['$NODE', `"${DNS_RULE}"`]),
      predictAt(
        'dns',
        '"$((2 * $(kubectl exec client -- grep ^search /etc/resolv.conf | wc -w)))"',
        readLookupPackets,
      ),
      inPod('client', 'getent ahosts kubernetes.default.svc.cluster.local'),
      answer('dns', '$CLIENT', async (bench) => (await readVariables(bench)).CLIENT),
    ),
    places: typing(
      predictAt(
        'places',
        "'prerouting-service, forward-pods, forward-original'",
        'prerouting-service, forward-pods, forward-original',
      ),
      addCounters,
      inPod('client', 'curl -s -o /dev/null --max-time 3 http://$WEB:80'),
    ),
    whole: typing(deleteCounters, patchWeb({ trafficDistribution: null })),
    incident: solveIncident(LAB),
  },

  comments: [`lab-${LAB}`],

  async leave(bench) {
    await Promise.all(NAMES.map((name) => bench.delete('Pod', name)))
  },
}
