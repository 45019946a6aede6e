// The reference solution of lab 2, played by `make solve-2` and, without a terminal, by
// `make lab-2`.

import { chosenNode } from '../../cluster/select.ts'
import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import {
  answers,
  apply,
  expose,
  flush,
  independent,
  mode,
  podsReady,
  predictions,
  remove,
  tools,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'

const MANIFESTS = 'labs/02-ipvs/manifests'
const EXTRA_SERVICES = `${MANIFESTS}/crowd.yaml`
const CLIENT = `${MANIFESTS}/client.yaml`

const prediction = predictions(2)
const answer = answers(2)
const onWorker = withVariables()
/** With the address of web, and the node and address of the client Pod. */
const withClient = withVariables(async (bench) => {
  const { clusterIP = '' } = await bench.service(bench.variant.name)
  const place = { namespace: 'default', name: 'client' }
  const { spec, status } = await bench.client.core.readNamespacedPod(place)
  const count = `-p tcp --syn -m conntrack --ctorigdst ${clusterIP} -m comment --comment lab-2-hooks`
  const [NODE = '', CLIENT = ''] = [spec?.nodeName, status?.podIP]
  const WORKER = await chosenNode(bench.cluster, '')
  return { NODE, CLIENT, WORKER, WEB: clusterIP, COUNT: count }
})

const HOOKS = 'PREROUTING INPUT FORWARD OUTPUT POSTROUTING'
const CURL = 'curl -s --max-time 3'

/** ClusterIPs, or Service ports: what a Service of the cluster has one of. */
const countServices = (path: string, countOf: (service: { ports: number }) => number) =>
  [
    `"$(kubectl get services -A -o jsonpath='{.items[*].${path}}' | wc -w)"`,
    async ({ client }: LabBench) => {
      const { items } = await client.core.listServiceForAllNamespaces()
      const counts = items.map(({ spec }) => countOf({ ports: spec?.ports?.length ?? 0 }))
      return String(counts.reduce((sum, count) => sum + count, 0))
    },
  ] as const

/** The ready endpoints of web. */
const endpointsOfWeb = [
  `"$(kubectl get endpointslices -l app=web -o jsonpath='{.items[0].endpoints[*].addresses[0]}' | wc -w)"`,
  async (bench: LabBench) => String((await bench.pods('web')).length),
] as const

export const solution: LabSolution = {
  steps: {
    web,
    'iptables-list': {
      // As many as the file has Services.
      ...independent(
        typing(
          prediction('iptables-list', `"$(grep -c '^kind: Service' ${EXTRA_SERVICES})"`, '20'),
          apply(EXTRA_SERVICES),
        ),
      ),
      cleanup: remove(EXTRA_SERVICES),
    },
    ipvs: mode('ipvs'),
    leftovers: onWorker.printed(
      prediction,
      'leftovers',
      '',
      `'iptables-save -t nat | grep -cE "^:KUBE-(SVC|SEP)-"'`,
    ),
    flush,
    'kube-ipvs0': prediction('kube-ipvs0', ...countServices('spec.clusterIP', () => 1)),
    tools,
    sets: prediction('sets', ...countServices('spec.ports[*].port', ({ ports }) => ports)),
    'ipvs-constant': {
      ...typing(prediction('ipvs-constant', '0', '0'), apply(EXTRA_SERVICES)),
      cleanup: remove(EXTRA_SERVICES),
    },
    prerouting: onWorker.printed(
      answer,
      'prerouting',
      '',
      `'iptables -t nat -S KUBE-SERVICES | sed -n "s/.* -m set --match-set KUBE-CLUSTER-IP dst,dst -j \\([A-Z]*\\)$/\\1/p"'`,
    ),
    'virtual-servers': prediction('virtual-servers', ...endpointsOfWeb),
    'node-port': typing(
      onWorker.printed(
        prediction,
        'node-port',
        '',
        `'ip -4 -o address | grep -vcE "^[0-9]+: (lo|kube-ipvs0) "'`,
      ),
      expose('np', 'NodePort'),
    ),
    'pod-to-service': independent(
      typing(
        apply(CLIENT),
        podsReady('client'),
        withClient.exec([
          '$NODE',
          `"for HOOK in ${HOOKS}; do iptables -t mangle -A \\$HOOK $COUNT; done"`,
        ]),
        prediction(
          'pod-to-service',
          'PREROUTING,INPUT,OUTPUT,POSTROUTING',
          'PREROUTING,INPUT,OUTPUT,POSTROUTING',
        ),
        withClient.inPod('client', `${CURL} "http://$WEB/?a-bell"`),
        answer(
          'pod-to-service',
          `"$(kubectl logs -l app=web --tail=20 | grep a-bell | head -n 1 | cut -d' ' -f1)"`,
          (bench) => bench.loggedClient('web', 'a-bell'),
        ),
      ),
    ),
    scheduler: mode('ipvs', { scheduler: 'lc' }),
    output: typing(
      prediction('output', 'OUTPUT,POSTROUTING', 'OUTPUT,POSTROUTING'),
      withClient.exec(['$NODE', `"${CURL} http://$WEB/?a-saddle"`]),
      onWorker.printed(
        answer,
        'output',
        '',
        `'iptables -t nat -S KUBE-MARK-MASQ | sed -n "s/.*--\\(set-xmark\\|or-mark\\) \\(0x[0-9a-f]*\\).*/\\2/p"'`,
      ),
    ),
    postrouting: onWorker.printed(
      answer,
      'postrouting',
      '',
      `'ipset list KUBE-LOOP-BACK | grep -c ,tcp:80,'`,
    ),
    masquerade: typing(
      prediction('masquerade', '2', '2'),
      withClient.exec([
        '$WORKER',
        `"for i in 1 2 3 4; do curl -s -o /dev/null --max-time 3 $WEB/?a-wheel; done"`,
      ]),
    ),
    conntrack: prediction('conntrack', '1', '1'),
    incident: solveIncident(2),
  },

  comments: ['lab-2-hooks'],

  async leave(bench) {
    await Promise.all([EXTRA_SERVICES, CLIENT].map((file) => bench.remove(file)))
  },
}
