// The reference solution of lab 10, played by `make solve-10` and, without a terminal, by
// `make lab-10`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { modeLacks } from '../../cluster/kube-proxy/module-check.ts'
import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution, SolutionStep } from '../../course/lab-solution.ts'
import { programmed } from '../../course/settled.ts'
import {
  answers,
  apply,
  mode,
  patchService,
  podsReady,
  predictions,
  typing,
  withVariables,
} from '../../course/typed-commands.ts'
import { CONTROL_PLANE } from '../../grading/snapshot.ts'
import { projectRoot } from '../../host/layout.ts'
import { programText } from '../../host/program-text.ts'
import { shellWord } from '../../host/shell-word.ts'
import { waitFor } from '../../host/wait.ts'

const LAB = 10
const MANIFESTS = 'labs/10-connections/manifests'
const TRAFFIC = 'labs/09-leaving-ipvs/manifests/traffic.yaml'
const QUOTES = `${MANIFESTS}/quotes.yaml`
const namespace = 'default'

const answer = answers(LAB)
const predictAt = predictions(LAB)
const ROLLOUT = 'kubectl rollout status deployment/shop --timeout=90s'

const podOf = (bench: LabBench, name: string) =>
  bench.client.core.readNamespacedPod({ namespace, name })

async function readVariables(bench: LabBench) {
  const { core } = bench.client
  const [client, service, nodes] = await Promise.all([
    podOf(bench, 'client'),
    core.readNamespacedService({ namespace, name: 'shop' }),
    core.listNode(),
  ])
  const control = nodes.items.find(
    ({ metadata }) => metadata?.labels?.[CONTROL_PLANE] !== undefined,
  )
  const cordoned = nodes.items.find(({ spec }) => spec?.unschedulable)
  return {
    NODE: client.spec?.nodeName ?? '',
    CLIENT: client.status?.podIP ?? '',
    SHOP: service.spec?.clusterIP ?? '',
    PORT: String(service.spec?.ports?.[0]?.nodePort ?? ''),
    CONTROL: control?.metadata?.name ?? '',
    AT: cordoned?.metadata?.name ?? '',
    ADDRESS: cordoned?.status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '',
  }
}
const { exec, inPod } = withVariables(readVariables)

const patchShop = (file: string): SolutionStep => ({
  commands: [`kubectl patch deployment shop --patch-file ${MANIFESTS}/${file}.yaml && ${ROLLOUT}`],
  play: async (bench) => {
    const text = readFileSync(join(projectRoot, MANIFESTS, `${file}.yaml`), 'utf8')
    await bench.patch('Deployment', 'shop', parse(text))
    await bench.rolledOut('Deployment', 'shop')
    await programmed(bench)
  },
})

const deployShop: SolutionStep = {
  commands: [`kubectl apply -f ${MANIFESTS}/shop.yaml && ${ROLLOUT}`],
  play: async (bench) => {
    await bench.apply(`${MANIFESTS}/shop.yaml`)
    await bench.rolledOut('Deployment', 'shop')
  },
}

const restart: SolutionStep = {
  commands: [`kubectl rollout restart deployment/shop && ${ROLLOUT}`],
  play: (bench) => bench.restart('shop'),
}

const END_CURL = 'pkill curl; '
/**
 * Requests of the client over one connection; `first` ends those of an earlier step, whose curl
 * would open new ones.
 */
const hold = (word: string, first = ''): SolutionStep =>
  inPod(
    'client',
    `sh -c "${first}curl -s -o /dev/null --connect-timeout 1 --rate 4/s 'http://$SHOP/?${word}[1-1800]' >/dev/null 2>&1 &"`,
  )

/**
 * The Pod of shop that answers the requests with this word over the kept connection: it has had
 * five.
 */
async function pinnedPod(bench: LabBench, word = 'held'): Promise<string> {
  const request = new RegExp(`/\\?${word}\\d+ `, 'g')
  return waitFor('five requests over one connection', 30_000, async () => {
    const names = (await bench.pods('shop')).map(({ metadata }) => metadata?.name ?? '')
    for (const name of names) {
      const log = await bench.client.core.readNamespacedPodLog({ namespace, name })
      if ((log?.match(request)?.length ?? 0) >= 5) return name
    }
    return undefined
  })
}

const AFFINITY = {
  spec: { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 3 } } },
}

/** New connections of the client, for longer than the timeout. */
const comeBack: SolutionStep = {
  commands: [
    'kubectl exec client -- sh -c "for N in \\$(seq 7); do curl -s -o /dev/null http://$SHOP/?sticky\\$N; sleep 0.7; done"',
  ],
  play: async (bench) => {
    const { SHOP } = await readVariables(bench)
    await programmed(bench)
    await bench.inPod(
      'client',
      `for N in $(seq 7); do curl -s -o /dev/null "http://${SHOP}/?sticky$N"; sleep 0.7; done`,
    )
  },
}

/**
 * Replaces the Pod of quotes once the reader has had its answers, and waits for answers of the new
 * one.
 */
const replaceQuotes: SolutionStep = {
  commands: [
    'kubectl delete pod -l app=quotes && kubectl rollout status deployment/quotes --timeout=60s',
  ],
  play: async (bench) => {
    const first = await answerOfQuotes(bench)
    await startDeletion(bench, first)
    await answerOfQuotes(bench, first)
  },
}

/** The Pod of quotes that has answered the reader last, another one than the former. */
const answerOfQuotes = (bench: LabBench, former?: string): Promise<string> =>
  waitFor('an answer of quotes', 60_000, async () => {
    const place = { namespace, name: 'reader', tailLines: 1 }
    // A Pod that has not started has no log.
    const log = await bench.client.core.readNamespacedPodLog(place).catch(() => '')
    const pod = log?.trim()
    return pod?.startsWith('quotes-') && pod !== former ? pod : undefined
  })

/** Deletes a Pod and does not wait for its end. */
const startDeletion = (bench: LabBench, name: string): Promise<unknown> =>
  bench.client.core.deleteNamespacedPod({ namespace, name })

const setSchedulable = (bench: LabBench, node: string, schedulable: boolean): Promise<void> =>
  bench.patch('Node', node, { spec: { unschedulable: !schedulable } })

/** A deleted Pod has answered another request since. */
async function answersOn(bench: LabBench, name: string): Promise<void> {
  const lines = async () =>
    (await bench.client.core.readNamespacedPodLog({ namespace, name }))?.split('\n').length ?? 0
  const before = await lines()
  await waitFor(`a late request in the log of ${name}`, 20_000, async () =>
    (await lines()) > before + 3 ? true : undefined,
  )
}

const deletePinned: SolutionStep = {
  commands: ['kubectl cordon $AT && kubectl delete pod $PINNED --wait=false'],
  play: async (bench) => {
    const name = await pinnedPod(bench)
    const { spec } = await podOf(bench, name)
    await setSchedulable(bench, spec?.nodeName ?? '', false)
    await startDeletion(bench, name)
    await answersOn(bench, name)
  },
}

/**
 * Waits for requests of the client over one connection: on a busy machine the first ones take their
 * time.
 */
const requestsArrive = (word: string): SolutionStep => ({
  commands: [],
  play: async (bench) => {
    await pinnedPod(bench, word)
  },
})

const AHEAD = 'labs/10-connections/out-of-window.pl'
const FILL = 'labs/10-connections/fill-conntrack.pl'
const aheadProgram = programText(AHEAD)
const fillTable = `perl -e ${shellWord(programText(FILL))}`
const INVALID = '-m conntrack --ctstate INVALID -m comment --comment lab-10-invalid'
const EMPTY = 'conntrack -D -d 203.0.113.1 >/dev/null 2>&1 || true'

/**
 * What the text types after the step in IPVS mode, which is not played where the kernel has none.
 */
const backToRules: SolutionStep = {
  commands: [],
  play: async (bench) => {
    await endDeleted(bench)
    await bench.mode('iptables')
    await bench.flush()
    await programmed(bench)
  },
}

/** The learner's rule on every node: it accepts INVALID packets. */
const letPass: SolutionStep = {
  commands: [
    `for N in $NODES; do make exec NODE=$N CMD="iptables -I FORWARD $INVALID -j ACCEPT"; done`,
  ],
  play: (bench) => bench.onEveryNode(`iptables -I FORWARD ${INVALID} -j ACCEPT`),
}

/** A rule that only counts those for the client, instead of the one that accepts. */
const onlyCount: SolutionStep = {
  commands: [
    'for N in $NODES; do make exec NODE=$N CMD="iptables -D FORWARD $INVALID -j ACCEPT; iptables -I FORWARD -d $CLIENT $INVALID"; done',
  ],
  play: async (bench) => {
    const { CLIENT } = await readVariables(bench)
    await bench.onEveryNode(
      `iptables -D FORWARD ${INVALID} -j ACCEPT; iptables -I FORWARD -d ${CLIENT} ${INVALID}`,
    )
  },
}

/**
 * A packet to the client outside of the window, from the Pod that has its connection, until one had
 * this outcome: on a busy machine no request may come while the Pods wait for one.
 */
const sendAhead = (outcome: 'reset' | 'unanswered'): SolutionStep => ({
  commands: [
    `for P in $(kubectl get pods -l app=shop -o name); do kubectl exec $P -- perl -e "$(cat ${AHEAD})" $CLIENT 1000000; done`,
  ],
  play: async (bench) => {
    const { CLIENT } = await readVariables(bench)
    const send = `perl -e ${shellWord(aheadProgram)} ${CLIENT} 1000000`
    await waitFor(`a packet that is ${outcome}`, 90_000, async () => {
      const pods = (await shopPods(bench)).filter(({ metadata }) => !metadata?.deletionTimestamp)
      const told = await Promise.all(
        pods.map(({ metadata }) => bench.inPod(metadata?.name ?? '', send)),
      )
      return told.some((text) => text.includes(`: ${outcome}`)) ? true : undefined
    })
  },
})

/**
 * The node whose rule has counted an INVALID packet for the client: those behind it did not get it.
 */
async function droppingNode(bench: LabBench): Promise<string> {
  for (const node of await bench.cluster.nodes())
    if (/^ *[1-9]/.test(await bench.onNode(node, 'iptables -nvxL FORWARD | grep lab-10-invalid')))
      return node
  return ''
}

/**
 * New connections of the client, two in a second at most; the file has the time that each one took
 * to open.
 */
const openConnections: SolutionStep = {
  commands: [
    `kubectl exec client -- sh -c "for N in \\$(seq 600); do curl -s -o /dev/null -w '%{time_connect}\\n' http://$SHOP/?fresh\\$N; sleep 0.5; done >/tmp/fresh 2>&1 &"`,
  ],
  play: async (bench) => {
    const { SHOP } = await readVariables(bench)
    await bench.inPod(
      'client',
      `for N in $(seq 600); do curl -s -o /dev/null -w '%{time_connect}\\n' http://${SHOP}/?fresh$N; sleep 0.5; done >/tmp/fresh 2>&1 &`,
    )
  },
}

/**
 * Fills the table of the client's node for six seconds, and waits for the connection that waited
 * meanwhile.
 */
const fill: SolutionStep = {
  commands: [`make exec NODE=$NODE CMD="perl -e '$(cat ${FILL})'"`],
  play: async (bench) => {
    await pinnedPod(bench, 'stays')
    const { NODE } = await readVariables(bench)
    await bench.onNode(NODE, fillTable)
    await waitFor('the connection that waited', 60_000, async () => {
      const slow = await bench.inPod('client', "awk '$1 > 4' /tmp/fresh")
      return slow === '' ? undefined : true
    })
    // The probes of the Pods on this node got no entry either: until they are ready again,
    // kube-proxy writes its rules.
    await bench.rolledOut('Deployment', 'shop')
    await programmed(bench)
  },
}

const LOCAL = { spec: { type: 'LoadBalancer', externalTrafficPolicy: 'Local' } }
/** The rules of every node follow from the objects. */
const follow: SolutionStep = { commands: [], play: programmed }

/** Deletes the Pod that answers the client's connection through IPVS, and waits for its weight. */
const deleteWeighed: SolutionStep = {
  commands: ['kubectl delete pod $KEPT --wait=false'],
  play: async (bench) => {
    const { NODE, SHOP } = await readVariables(bench)
    const name = await pinnedPod(bench, 'weigh')
    const address = (await podOf(bench, name)).status?.podIP ?? ''
    await startDeletion(bench, name)
    await waitFor(`weight 0 for ${address}`, 20_000, async () =>
      (await bench.onNode(NODE, `ipvsadm -Ln -t ${SHOP}:80`)).match(`${address}:80 +Masq +0 `),
    )
    await answersOn(bench, name)
  },
}

const setTemplates = (value: 0 | 1): SolutionStep =>
  exec(['$NODE', `"sysctl -w net.ipv4.vs.expire_quiescent_template=${value}"`])
const comeAgain = (word: string): SolutionStep =>
  inPod('client', `curl -s --max-time 3 -o /dev/null "http://$SHOP/?${word}"`)

/** What is played only where the kernel has IPVS. */
const whereIpvs = ({ commands, play }: SolutionStep): SolutionStep => ({
  commands,
  play: async (bench) => {
    const lacks = await modeLacks(bench.cluster, await bench.cluster.nodes(), 'ipvs', 'rr')
    if (lacks === undefined) await play?.(bench)
  },
})

const emptyShop: SolutionStep = {
  commands: ['kubectl scale deployment shop --replicas=0'],
  play: async (bench) => {
    await bench.patch('Deployment', 'shop', { spec: { replicas: 0 } })
    await waitFor('the deletion of every Pod of shop', 20_000, async () =>
      (await shopPods(bench)).every(({ metadata }) => metadata?.deletionTimestamp)
        ? true
        : undefined,
    )
  },
}

const shopPods = async ({ client }: LabBench) =>
  (await client.core.listNamespacedPod({ namespace, labelSelector: 'app=shop' })).items

/**
 * Ends the Pods of shop that are deleted: of a Deployment that is gone, a controller deletes them
 * only a little later.
 */
async function endDeleted(bench: LabBench): Promise<void> {
  const gone = (await shopPods(bench)).filter(({ metadata }) => metadata?.deletionTimestamp)
  await Promise.all(
    gone.map(({ metadata }) =>
      bench.client.core
        .deleteNamespacedPod({ namespace, name: metadata?.name ?? '', gracePeriodSeconds: 1 })
        .catch(() => undefined),
    ),
  )
}

/** Patched first: Pods of the patch before would wait for five minutes when they are replaced. */
const makeCareful: SolutionStep = {
  commands: [
    `kubectl uncordon $AT && kubectl patch deployment shop --patch-file ${MANIFESTS}/careful.yaml`,
    `kubectl scale deployment shop --replicas=2 && ${ROLLOUT}`,
    "kubectl get pods -l app=shop -o jsonpath='{.items[?(@.metadata.deletionTimestamp)].metadata.name}' | xargs -r kubectl delete pod --grace-period=1",
  ],
  play: async (bench) => {
    const { AT } = await readVariables(bench)
    if (AT) await setSchedulable(bench, AT, true)
    const text = readFileSync(join(projectRoot, MANIFESTS, 'careful.yaml'), 'utf8')
    await bench.patch('Deployment', 'shop', parse(text))
    await bench.scale('shop', 2)
    await programmed(bench)
    await waitFor("the end of shop's old Pods", 30_000, async () => {
      await endDeleted(bench)
      return (await shopPods(bench)).length === 2 ? true : undefined
    })
  },
}

const drain: SolutionStep = {
  commands: [`kubectl drain $NODE --pod-selector=app=shop --timeout=120s && ${ROLLOUT}`],
  play: async (bench) => {
    const { NODE } = await readVariables(bench)
    await setSchedulable(bench, NODE, false)
    const evicted = (await shopPods(bench)).filter(({ spec }) => spec?.nodeName === NODE)
    for (const { metadata } of evicted) {
      const name = metadata?.name ?? ''
      await bench.client.core.createNamespacedPodEviction({
        namespace,
        name,
        body: { metadata: { namespace, name } },
      })
    }
    await waitFor(`the end of shop's Pods on ${NODE}`, 60_000, async () =>
      (await shopPods(bench)).every(({ spec }) => spec?.nodeName !== NODE) ? true : undefined,
    )
    await bench.rolledOut('Deployment', 'shop')
  },
}

/** The clients have had answers from shop. */
const clientsRun: SolutionStep = {
  commands: [
    'kubectl rollout status daemonset/traffic-pod --timeout=90s && kubectl rollout status daemonset/traffic-node --timeout=90s',
  ],
  play: async (bench) => {
    await Promise.all(
      ['traffic-pod', 'traffic-node'].map((name) => bench.rolledOut('DaemonSet', name)),
    )
    await waitFor('answers for every client', 60_000, async () => {
      const logs = await Promise.all(
        (await bench.pods('traffic')).map(({ metadata }) =>
          bench.client.core.readNamespacedPodLog({
            namespace,
            name: metadata?.name ?? '',
            tailLines: 1,
          }),
        ),
      )
      return logs.every((log) => /^new=[1-9]/m.test(log ?? '')) ? true : undefined
    })
  },
}

const CONNTRACK = 'conntrack -L -p tcp --state ESTABLISHED --orig-src $CLIENT --orig-dst $SHOP'
/** The source of replies in the entry of the client's kept connection. */
async function replySource(bench: LabBench): Promise<string> {
  const name = await pinnedPod(bench)
  return (await podOf(bench, name)).status?.podIP ?? ''
}

export const solution: LabSolution = {
  steps: {
    shop: typing(
      deployShop,
      apply(`${MANIFESTS}/clients.yaml`, TRAFFIC),
      clientsRun,
      podsReady('client'),
    ),
    naive: typing(
      predictAt(
        'naive',
        "'new-before-they-listen, old-when-they-end'",
        'new-before-they-listen, old-when-they-end',
      ),
      restart,
    ),
    pinned: typing(
      predictAt('pinned', '1', '1'),
      patchShop('linger'),
      hold('held'),
      answer(
        'pinned',
        `"$(make -s exec NODE=$NODE CMD="${CONNTRACK}" | sed -n 's/.* src=\\([0-9.]*\\) .*/\\1/p')"`,
        replySource,
      ),
    ),
    terminating: typing(
      predictAt('terminating', "'serving, terminating'", 'serving, terminating'),
      deletePinned,
      answer('terminating', 'over-kept-connections', 'over-kept-connections'),
    ),
    local: typing(
      predictAt('local', '503', '503'),
      patchService('shop', LOCAL),
      follow,
      exec([
        '$CONTROL',
        '"curl -s --retry 5 --retry-connrefused --max-time 3 http://$ADDRESS:$PORT/?through"',
      ]),
      answer('local', 'from-outside', 'from-outside'),
    ),
    last: typing(
      predictAt('last', 'an-answer', 'an-answer'),
      emptyShop,
      inPod('client', 'curl -s --retry 5 --retry-connrefused --max-time 3 "http://$SHOP/?last"'),
    ),
    careful: typing(predictAt('careful', 'neither', 'neither'), makeCareful),
    lossless: typing(
      predictAt('lossless', 'nothing-for-some-seconds', 'nothing-for-some-seconds'),
      restart,
      drain,
    ),
    affinity: typing(
      predictAt('affinity', '1', '1'),
      patchService('shop', AFFINITY),
      comeBack,
      answer('affinity', 'the-last-connection', 'the-last-connection'),
    ),
    udp: typing(
      predictAt('udp', 'answers-of-the-new-pod', 'answers-of-the-new-pod'),
      apply(QUOTES),
      replaceQuotes,
      answer('udp', 'udp', 'udp'),
    ),
    weight: whereIpvs(
      typing(
        predictAt('weight', 'weight-0', 'weight-0'),
        mode('ipvs'),
        patchShop('linger'),
        hold('weigh', END_CURL),
        deleteWeighed,
        setTemplates(0),
        comeAgain('loyal'),
        setTemplates(1),
        comeAgain('free'),
        answer('weight', 'the-deleted-pod', 'the-deleted-pod'),
      ),
    ),
    invalid: typing(
      predictAt('invalid', 'answer-with-a-reset', 'answer-with-a-reset'),
      backToRules,
      hold('window', END_CURL),
      requestsArrive('window'),
      letPass,
      sendAhead('reset'),
      onlyCount,
      sendAhead('unanswered'),
      answer(
        'invalid',
        `"$(for N in $NODES; do make -s exec NODE=$N CMD="iptables -nvxL FORWARD" | grep -q '^ *[1-9].*lab-10-invalid' && echo $N; done)"`,
        droppingNode,
      ),
    ),
    full: typing(
      predictAt('full', 'silence', 'silence'),
      hold('stays', END_CURL),
      openConnections,
      fill,
      answer('full', 'over-kept-connections', 'over-kept-connections'),
    ),
    incident: solveIncident(LAB),
  },

  comments: [`lab-${LAB}`],

  async leave(bench) {
    const nodes = await bench.client.core.listNode()
    await Promise.all([
      bench.onEveryNode(EMPTY),
      ...nodes.items
        .filter(({ spec }) => spec?.unschedulable)
        .map(({ metadata }) => setSchedulable(bench, metadata?.name ?? '', true)),
      ...[`${MANIFESTS}/shop.yaml`, `${MANIFESTS}/clients.yaml`, TRAFFIC, QUOTES].map((file) =>
        bench.remove(file),
      ),
    ])
    await waitFor('the end of the Pods of shop', 30_000, async () => {
      await endDeleted(bench)
      return (await shopPods(bench)).length === 0 ? true : undefined
    })
  },
}
