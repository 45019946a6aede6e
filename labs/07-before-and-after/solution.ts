// The reference solution of lab 7, played by `make solve-7` and, without a terminal, by
// `make lab-7`.

import { readDaemonSet } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { ModeUnsupported } from '../../cluster/kube-proxy/switch-mode.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { isPodReady } from '../../course/lab-objects.ts'
import type { LabSolution, SolutionStep } from '../../course/lab-solution.ts'
import {
  answers,
  apply,
  atOnce,
  deletePod,
  flush,
  mode,
  podsReady,
  predictions,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'

const LAB = 7
const MANIFESTS = 'labs/07-before-and-after/manifests'
const DEAF = `${MANIFESTS}/deaf.yaml`
const CLIENT = `${MANIFESTS}/client.yaml`

const answer = answers(LAB)
const predicted = predictions(LAB)
/** A prediction of a learner who knows the earlier labs. */
const foretold = (step: string, text: string) => predicted(step, `'${text}'`, text)
const { printed } = withVariables()

/**
 * Nine requests of the Pod client with a word that the Pods log, each over a connection of its own;
 * some may fail.
 */
const nineRequests = (word: string): SolutionStep => ({
  commands: [
    `kubectl exec client -- sh -c "for i in 1 2 3 4 5 6 7 8 9; do curl -s -o /dev/null -w '%{http_code} ' --max-time 3 http://$WEB/?${word}; done; echo"`,
  ],
  play: async (bench) => {
    const url = await urlOfWeb(bench)
    const curl = `curl -s -o /dev/null --max-time 3 '${url}/?${word}'`
    await bench.inPod('client', `for i in 1 2 3 4 5 6 7 8 9; do ${curl} || true; done`)
  },
})

async function urlOfWeb(bench: LabBench): Promise<string> {
  const { name, port } = bench.variant
  const { clusterIP } = await bench.service(name)
  return `http://${clusterIP}:${port}`
}

/** The client address in the log of the Pod of web that answers a request of the Pod client. */
async function clientOfOneRequest(bench: LabBench): Promise<string> {
  const curl = `curl -s -o /dev/null --max-time 3 '${await urlOfWeb(bench)}/`
  // Without userspace mode, a third of the connections go to the Pod without a listener, and fail.
  return bench.clientInLogs('web', (mark) =>
    bench.inPod('client', `for i in $(seq 20); do if ${curl}?${mark}'; then break; fi; done`),
  )
}

const MODE_NOW = 'curl -s localhost:10249/proxyMode'
const READY_ENDPOINTS = `kubectl get endpointslices -l app=web -o jsonpath='{.items[*].endpoints[?(@.conditions.ready==true)].addresses[*]}' | wc -w`
const LIST = 'iptables -t nat -S KUBE-SERVICES | grep -c ^-A'
/** Each element of the map leads to a chain. */
const MAP = 'nft list map ip kube-proxy service-ips | grep -o goto | wc -l'
/** The last row of the table of versions has the one without IPVS mode. */
const GONE = 43

/** Prints the modes that the kernel supports, the best first; with -c nft changes nothing. */
const BEST_HERE = [
  'nft -c "add table ip p; add chain ip p c { type nat hook prerouting priority 0; }" 2>/dev/null && echo nftables',
  'ipvsadm -Ln >/dev/null 2>&1 && echo ipvs',
  'echo iptables',
].join('; ')

/** The minor version of the cluster's kube-proxy, as in the image of its DaemonSet. */
async function ownMinor(bench: LabBench): Promise<number> {
  const { spec } = await readDaemonSet(bench.client)
  const [, minor = '0'] = /:v1\.(\d+)/.exec(spec?.template.spec?.containers[0]?.image ?? '') ?? []
  return Number(minor)
}

/** The best mode of BEST_HERE that the cluster's kube-proxy has. */
async function bestHere(bench: LabBench): Promise<string> {
  const printed = await bench.onNode((await bench.cluster.nodes()).at(-1) ?? '', BEST_HERE)
  const minor = await ownMinor(bench)
  return printed.split('\n').find((one) => one !== 'nftables' || minor >= 31) ?? ''
}

const PORTALS = 'iptables -t nat -S KUBE-PORTALS-CONTAINER'

/** The port in the rule for web on the client's node; empty where userspace mode can't run. */
async function portOfClientsNode(bench: LabBench): Promise<string> {
  const { clusterIP } = await bench.service(bench.variant.name)
  const [client] = await bench.pods('client')
  const rules = await bench.onNode(client?.spec?.nodeName ?? '', `${PORTALS} || true`)
  const own = rules.split('\n').find((rule) => rule.includes(`-d ${clusterIP}/32 `))
  return / --to-ports (\d+)/.exec(own ?? '')?.[1] ?? '0'
}

export const solution: LabSolution = {
  steps: {
    stage: typing(
      foretold('stage', '3'),
      atOnce(web, apply(CLIENT, DEAF)),
      podsReady('client', 'deaf'),
    ),
    fails: typing(foretold('fails', 'refused'), nineRequests('mine')),
    share: answer(
      'share',
      `"1/$(${READY_ENDPOINTS})"`,
      async (bench) => `1/${(await bench.pods('web')).filter(isPodReady).length}`,
    ),
    relay: typing(
      foretold('relay', 'a-port-of-the-node'),
      {
        commands: ['make userspace'],
        play: async (bench) => {
          // Only the embedded cluster runs a kube-proxy that is old enough.
          if (bench.cluster.capabilities.runsOldKubeProxies)
            await bench.mode('userspace', { version: '1.20' })
        },
      },
      answer(
        'relay',
        `"$(make -s exec NODE=$(kubectl get pod client -o jsonpath='{.spec.nodeName}') CMD='${PORTALS}' | grep -e "-d $WEB/32" | sed -nE 's/.* --to-ports ([0-9]+).*/\\1/p')"`,
        portOfClientsNode,
      ),
    ),
    retried: typing(foretold('retried', '0'), nineRequests('mine')),
    'seen-client': answer(
      'seen-client',
      `"$(kubectl logs -l app=web --tail=1 | awk 'NR == 1 {print $1}')"`,
      clientOfOneRequest,
    ),
    back: typing(foretold('back', 'none'), mode('iptables', { version: 'own' }), flush),
    probed: {
      ...typing(
        foretold('probed', 'not-ready'),
        deletePod('deaf'),
        apply(`${MANIFESTS}/deaf-probed.yaml`),
        nineRequests('probed'),
      ),
      cleanup: deletePod('deaf'),
    },
    'nft-tables': typing(foretold('nft-tables', '2'), {
      commands: ['make nftables || true'],
      play: async (bench) => {
        try {
          await bench.mode('nftables')
        } catch (error) {
          // The kernel lacks it, and nothing was changed.
          if (!(error instanceof ModeUnsupported)) throw error
          bench.progress.note(error.message)
        }
      },
    }),
    'nft-maps': typing(
      {
        commands: [
          "kubectl exec client -- curl -s -o /dev/null -w '%{http_code}\\n' --max-time 3 http://$WEB/?nft",
        ],
        play: async (bench) => {
          await bench.inPod('client', `curl -s --max-time 3 '${await urlOfWeb(bench)}/?nft'`)
        },
      },
      printed(answer, 'nft-maps', '', `'${MAP}'`),
    ),
    'nft-alone': flush,
    'nft-back': typing(mode('iptables'), flush),
    'choose-retry': answer(
      'choose-retry',
      `"$((600 / ($(${READY_ENDPOINTS}) + 1))) 0 0"`,
      async (bench) => {
        const pods = await bench.pods('web')
        const healthy = pods.filter(({ metadata }) => metadata?.name !== 'deaf').length
        return `${600 / (healthy + 1)} 0 0`
      },
    ),
    'choose-list': printed(answer, 'choose-list', '', `'${LIST}'`),
    'choose-scheduler': answer('choose-scheduler', 'ipvs-lc', 'ipvs-lc'),
    'choose-here': answer(
      'choose-here',
      `"$(make -s exec CMD='${BEST_HERE}' | head -n 1)"`,
      bestHere,
    ),
    'choose-default': printed(answer, 'choose-default', '', `'${MODE_NOW}'`),
    'ipvs-ends': answer(
      'ipvs-ends',
      `"$((${GONE} - $(kubectl -n kube-system get daemonset kube-proxy -o jsonpath='{.spec.template.spec.containers[0].image}' | sed -nE 's/.*:v1[.]([0-9]+).*/\\1/p')))"`,
      async (bench) => String(GONE - (await ownMinor(bench))),
    ),
  },

  async leave(bench) {
    await Promise.all([bench.delete('Pod', 'client'), bench.delete('Pod', 'deaf')])
  },
}
