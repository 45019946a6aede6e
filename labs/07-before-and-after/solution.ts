// The reference solution of lab 7, played by `make solve-7` and, without a terminal, by `make lab-7`.

import { readDaemonSet } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { ModeUnsupported } from '../../cluster/kube-proxy/switch-mode.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { isPodReady } from '../../course/lab-objects.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import {
  answers,
  apply,
  atOnce,
  deletePod,
  flush,
  mode,
  podsReady,
  readsOnly,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'

const LAB = 7
const MANIFESTS = 'labs/07-before-and-after/manifests'
const DEAF = `${MANIFESTS}/deaf.yaml`
const CLIENT = `${MANIFESTS}/client.yaml`

const answer = answers(LAB)
const { printed } = withVariables()

/** The client address in the log of the Pod of web that answers a request of the Pod client. */
async function clientOfOneRequest(bench: LabBench): Promise<string> {
  const { name, port } = bench.variant
  const { clusterIP } = await bench.service(name)
  const curl = `curl -s -o /dev/null --max-time 3 'http://${clusterIP}:${port}/`
  // Without userspace mode, a third of the connections go to the Pod without a listener, and fail.
  return bench.clientInLogs('web', (mark) =>
    bench.inPod('client', `for i in $(seq 20); do if ${curl}?${mark}'; then break; fi; done`),
  )
}

/** Shell: the mode in the table of lab 1 whose row continues with this text. */
const modeInTable = (row: string) =>
  `"$(sed -nE 's/^[|] (\\S+) [|]${row}.*/\\1/p' labs/01-iptables/README.md)"`

const MODE_NOW = 'curl -s localhost:10249/proxyMode'
/** If every Service port has an entry in the list, the current mode is the one with the list. */
const MODE_WITH_LIST = `iptables -t nat -S KUBE-SERVICES | grep -q -- "-j KUBE-SVC-" && ${MODE_NOW}`

/** Prints the modes that the kernel supports, the best first; with -c nft changes nothing. */
const BEST_HERE = [
  'nft -c "add table ip p; add chain ip p c { type nat hook prerouting priority 0; }" 2>/dev/null && echo nftables',
  'ipvsadm -Ln >/dev/null 2>&1 && echo ipvs',
  'echo iptables',
].join('; ')

/** The best mode of BEST_HERE that the cluster's kube-proxy has. */
async function bestHere(bench: LabBench): Promise<string> {
  const printed = await bench.onNode((await bench.cluster.nodes()).at(-1) ?? '', BEST_HERE)
  const { spec } = await readDaemonSet(bench.client)
  const [, minor = '0'] = /:v1\.(\d+)/.exec(spec?.template.spec?.containers[0]?.image ?? '') ?? []
  return printed.split('\n').find((one) => one !== 'nftables' || Number(minor) >= 31) ?? ''
}

export const solution: LabSolution = {
  steps: {
    stage: typing(atOnce(web, apply(CLIENT, DEAF)), podsReady('client', 'deaf')),
    fails: readsOnly,
    share: answer(
      'share',
      `"1/$(kubectl get endpointslices -l app=web -o jsonpath='{.items[*].endpoints[?(@.conditions.ready==true)].addresses[*]}' | wc -w)"`,
      async (bench) => `1/${(await bench.pods('web')).filter(isPodReady).length}`,
    ),
    relay: {
      commands: ['make userspace'],
      play: async (bench) => {
        // Only the embedded cluster runs a kube-proxy that is old enough.
        if (bench.cluster.driver === 'embedded') await bench.mode('userspace', { version: '1.20' })
      },
    },
    retried: readsOnly,
    'seen-client': answer(
      'seen-client',
      `"$(kubectl logs -l app=web --tail=1 | awk 'NR == 1 {print $1}')"`,
      clientOfOneRequest,
    ),
    back: typing(mode('iptables', { version: 'own' }), flush),
    probed: {
      ...typing(deletePod('deaf'), apply(`${MANIFESTS}/deaf-probed.yaml`)),
      cleanup: deletePod('deaf'),
    },
    'nft-tables': {
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
    },
    'nft-maps': readsOnly,
    'nft-alone': flush,
    'nft-back': typing(mode('iptables'), flush),
    'choose-retry': answer('choose-retry', modeInTable(' in the kube-proxy process'), 'userspace'),
    'choose-list': printed(answer, 'choose-list', '', `'${MODE_WITH_LIST}'`),
    'choose-scheduler': answer('choose-scheduler', modeInTable('.*by a scheduler [|]'), 'ipvs'),
    'choose-here': answer(
      'choose-here',
      `"$(make -s exec CMD='${BEST_HERE}' | head -n 1)"`,
      bestHere,
    ),
    'choose-default': printed(answer, 'choose-default', '', `'${MODE_NOW}'`),
    'ipvs-ends': answer(
      'ipvs-ends',
      `"$(sed -nE 's/^[|] (\\S+) [|] IPVS mode is deprecated.*/\\1/p' labs/07-before-and-after/README.md)"`,
      '1.35',
    ),
  },

  async leave(bench) {
    await Promise.all([bench.delete('Pod', 'client'), bench.delete('Pod', 'deaf')])
  },
}
