// The reference solution of lab 7, played by `make solve-7` and, without a terminal, by `make lab-7`.

import { readDaemonSet } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { ModeUnsupported } from '../../cluster/kube-proxy/module-check.ts'
import { isReady, type LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import { waitFor } from '../../host/wait.ts'

const LAB = 7
const MANIFESTS = 'labs/07-before-and-after/manifests'
const readsOnly = { commands: [] }
const DEAF = `${MANIFESTS}/deaf.yaml`
const CLIENT = `${MANIFESTS}/client.yaml`

/** `make userspace`, if the cluster can run kube-proxy 1.20. */
async function userspace(bench: LabBench): Promise<void> {
  if (bench.cluster.driver === 'embedded') await bench.mode('userspace', { version: '1.20' })
}

/** `make nftables`; false if the kernel lacks it, in which case nothing is changed. */
async function nftables(bench: LabBench): Promise<boolean> {
  try {
    await bench.mode('nftables')
    return true
  } catch (error) {
    if (!(error instanceof ModeUnsupported)) throw error
    bench.progress.note(error.message)
    return false
  }
}

/** The client address of the line that a request of the Pod client adds to the log of one of the Pods of web. */
async function clientOfOneRequest(bench: LabBench): Promise<string> {
  const { name, port } = bench.variant
  const { clusterIP } = await bench.service(name)
  const before = await bench.logs('web')
  // Without userspace mode, a third of the connections go to the Pod without a listener, and fail.
  const request = `curl -s -o /dev/null --max-time 3 http://${clusterIP}:${port}/`
  await bench.inPod('client', `for i in $(seq 20); do if ${request}; then break; fi; done`)
  // The log line may appear after the answer, and after other lines.
  const grown = await waitFor('the request in the log of a Pod of web', 10_000, async () =>
    (await bench.logs('web')).find((log, index) => log.length > (before[index] ?? '').length),
  )
  return /^\d+\.\d+\.\d+\.\d+/.exec(grown.trimEnd().split('\n').at(-1) ?? '')?.[0] ?? 'none'
}

/** The number of ready Pods of web. */
const endpointCount = async (bench: LabBench) => (await bench.pods('web')).filter(isReady).length

/** Shell: the mode in the table of lab 1 whose row continues with this text. */
const modeInTable = (row: string) => `$(sed -nE 's/^[|] (\\S+) [|]${row}.*/\\1/p' labs/01-iptables/README.md)`

const given = (step: string, found: string, text: string) => ({
  commands: [`make answer LAB=${LAB} Q=${step} A="${found}"`],
  play: (bench: LabBench) => bench.answer(LAB, step, text),
})

/** If every Service port has an entry in the list, the current mode is the one with the list. */
const MODE_WITH_LIST =
  'iptables -t nat -S KUBE-SERVICES | grep -q -- "-j KUBE-SVC-" && curl -s localhost:10249/proxyMode'
const MODE_NOW = 'curl -s localhost:10249/proxyMode'
const onWorker = (command: string) => `$(make -s exec CMD='${command}')`

/** Prints the modes that the kernel supports, the best first; with -c nft changes nothing. */
const BEST_HERE = [
  'nft -c "add table ip p; add chain ip p c { type nat hook prerouting priority 0; }" 2>/dev/null && echo nftables',
  'ipvsadm -Ln >/dev/null 2>&1 && echo ipvs',
  'echo iptables',
].join('; ')

export const solution: LabSolution = {
  steps: {
    stage: {
      commands: [
        'make web',
        `kubectl apply -f ${CLIENT} -f ${DEAF}`,
        'kubectl wait --for=condition=Ready pod/client pod/deaf --timeout=90s',
      ],
      play: async (bench) => {
        await Promise.all([bench.web(), bench.apply(CLIENT), bench.apply(DEAF)])
        await Promise.all([bench.podReady('client'), bench.podReady('deaf')])
      },
    },
    fails: readsOnly,
    share: {
      commands: [
        `make answer LAB=${LAB} Q=share A="1/$(kubectl get endpointslices -l app=web -o jsonpath='{.items[*].endpoints[?(@.conditions.ready==true)].addresses[*]}' | wc -w)"`,
      ],
      play: async (bench) => bench.answer(LAB, 'share', `1/${await endpointCount(bench)}`),
    },
    relay: { commands: ['make userspace'], play: userspace },
    retried: readsOnly,
    'seen-client': {
      commands: [
        `make answer LAB=${LAB} Q=seen-client A="$(kubectl logs -l app=web --tail=1 | awk 'NR == 1 {print $1}')"`,
      ],
      play: async (bench) => bench.answer(LAB, 'seen-client', await clientOfOneRequest(bench)),
    },
    back: {
      commands: ['make iptables KUBE_PROXY_VERSION=own', 'make flush-nat'],
      play: async (bench) => {
        await bench.mode('iptables', { version: 'own' })
        await bench.flush()
      },
    },
    probed: {
      commands: ['kubectl delete pod deaf', `kubectl apply -f ${MANIFESTS}/deaf-probed.yaml`],
      play: async (bench) => {
        await bench.delete('Pod', 'deaf')
        await bench.apply(`${MANIFESTS}/deaf-probed.yaml`)
      },
      cleanup: { commands: ['kubectl delete pod deaf'], play: (bench) => bench.delete('Pod', 'deaf') },
    },
    'nft-tables': {
      commands: ['make nftables || true'],
      play: async (bench) => {
        await nftables(bench)
      },
    },
    'nft-maps': readsOnly,
    'nft-alone': { commands: ['make flush-nat'], play: (bench) => bench.flush() },
    'nft-back': {
      commands: ['make iptables', 'make flush-nat'],
      play: async (bench) => {
        await bench.mode('iptables')
        await bench.flush()
      },
    },
    'choose-retry': given('choose-retry', modeInTable(' in the kube-proxy process'), 'userspace'),
    'choose-list': given('choose-list', onWorker(MODE_WITH_LIST), 'iptables'),
    'choose-scheduler': given('choose-scheduler', modeInTable('.*by a scheduler [|]'), 'ipvs'),
    'choose-here': {
      commands: [`make answer LAB=${LAB} Q=choose-here A="$(make -s exec CMD='${BEST_HERE}' | head -n 1)"`],
      play: async (bench) => {
        const node = (await bench.cluster.nodes()).at(-1) ?? ''
        const printed = await bench.onNode(node, BEST_HERE)
        const { spec } = await readDaemonSet(bench.client)
        const [, minor = '0'] = /:v1\.(\d+)/.exec(spec?.template.spec?.containers[0]?.image ?? '') ?? []
        const [best = ''] = printed.split('\n').filter((mode) => mode !== 'nftables' || Number(minor) >= 31)
        await bench.answer(LAB, 'choose-here', best)
      },
    },
    'choose-default': given('choose-default', onWorker(MODE_NOW), 'iptables'),
    'ipvs-ends': given(
      'ipvs-ends',
      `$(sed -nE 's/^[|] (\\S+) [|] IPVS mode is deprecated.*/\\1/p' labs/07-before-and-after/README.md)`,
      '1.35',
    ),
  },

  async leave(bench) {
    await Promise.all([bench.delete('Pod', 'client'), bench.delete('Pod', 'deaf')])
  },

  async reset(bench) {
    await Promise.all([
      solution.leave?.(bench),
      bench.deleteLabelled('app=web'),
      bench.delete('ConfigMap', `lab-${LAB}`),
    ])
    await bench.startIn('iptables')
  },
}
