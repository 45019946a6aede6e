// The reference solution of lab 4, played by `make solve-4` and, without a terminal, by `make lab-4`.

import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution, SolutionStep } from '../../course/lab-solution.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { waitFor } from '../../host/wait.ts'
import {
  clearMachines,
  excludeRanges,
  independent,
  onDirector,
  onWorkers,
  outside,
  typing,
  type Variables,
  variables,
} from './machines.ts'

const LAB = 4
const REAL_SERVER = 'labs/04-lvs/manifests/real-server.yaml'
const VIP = '192.0.2.10'
const SHARED = '192.0.2.11'
const readsOnly = { commands: [] }

/** `PORT:SCHEDULER` … as virtual servers with both workers and these weights. */
const weighted = (pairs: string, first: number, second: number) =>
  `for S in ${pairs}; do P=\\\${S%:*}; ipvsadm -A -t ${VIP}:\\$P -s \\\${S#*:}; ` +
  `ipvsadm -a -t ${VIP}:\\$P -r $W1:8090 -m -w ${first}; ipvsadm -a -t ${VIP}:\\$P -r $W2:8090 -m -w ${second}; done`

/** A virtual server with both workers, with this forwarding method. */
const onBoth = (virtual: string, port: number, method: string) =>
  `ipvsadm -A -t ${virtual}:${port} -s rr; for W in $W1 $W2; do ipvsadm -a -t ${virtual}:${port} -r \\$W:${port} ${method}; done`

/** The chain whose counter stayed at zero, and the hardware address of the first worker. */
const HOOK = String.raw`"$(make -s exec NODE=$DIRECTOR CMD="iptables-save -c -t mangle" | sed -n 's/^\[0:0\] -A \([A-Z]*\) .*lab-4$/\1/p')"`
const MAC = '"$(make -s exec NODE=$N1 CMD="cat /sys/class/net/eth0/address")"'

/** An answer that a learner reads on a machine. */
function answering(
  id: string,
  answer: string,
  read: (bench: LabBench, known: Variables) => Promise<string>,
): SolutionStep {
  return {
    commands: [`make answer LAB=${LAB} Q=${id} A=${answer}`],
    play: async (bench) => bench.answer(LAB, id, await read(bench, await variables(bench))),
  }
}

/** Sends a request to each real server, and reads the client address in the log of one. */
async function loggedClient(bench: LabBench): Promise<string> {
  await bench.onNode(OUTSIDE, `curl -s --max-time 2 ${VIP}:8090 ${VIP}:8090`)
  return waitFor('the request in the log', 5000, async () => {
    const [log = ''] = await bench.logs('real-server', 'nginx')
    const line = log.split('\n').findLast((one) => one.includes('curl/'))
    return line?.split(' ', 1)[0]
  })
}

export const solution: LabSolution = {
  steps: {
    stage: {
      commands: [
        `kubectl apply -f ${REAL_SERVER}`,
        'kubectl rollout status daemonset/real-server --timeout=90s',
        'make tools',
      ],
      play: async (bench) => {
        await bench.apply(REAL_SERVER)
        await bench.tools()
        await bench.rolledOut('DaemonSet', 'real-server')
      },
    },
    'virtual-server': independent(
      typing(
        onDirector(`ip addr add ${VIP}/32 dev lo`),
        onDirector(onBoth(VIP, 8090, '-m')),
        outside('ip route add 192.0.2.0/24 via $D'),
        onDirector('sysctl -w net.ipv4.vs.conntrack=1'),
      ),
    ),
    hooks: independent(
      typing(
        onDirector(
          'for HOOK in PREROUTING INPUT FORWARD OUTPUT POSTROUTING; do iptables -t mangle -A \\$HOOK -p tcp --syn --dport 8090 -m comment --comment lab-4; done',
        ),
      ),
    ),
    'unseen-hook': answering('unseen-hook', HOOK, async (bench, { DIRECTOR }) => {
      await bench.onNode(OUTSIDE, `curl -s --max-time 2 ${VIP}:8090`)
      const rules = await bench.onNode(DIRECTOR, 'iptables-save -c -t mangle')
      return /^\[0:0\] -A (\S+) .*--comment lab-4$/m.exec(rules)?.[1] ?? 'none'
    }),
    nat: readsOnly,
    'seen-client': answering('seen-client', `"$(kubectl logs $RS -c nginx --tail=1 | cut -d' ' -f1)"`, loggedClient),
    'direct-routing': typing(
      ...[onDirector(`ip addr add ${SHARED}/32 dev lo`), ...onWorkers(`ip addr add ${SHARED}/32 dev lo`)],
      onDirector(onBoth(SHARED, 8091, '-g')),
    ),
    frame: answering('frame', MAC, async (bench, { N1 }) => {
      const link = await bench.onNode(N1, 'ip link show eth0')
      return /link\/ether (\S+)/.exec(link)?.[1] ?? ''
    }),
    tunnel: independent(
      typing(
        ...onWorkers('modprobe ipip; ip link set tunl0 up; sysctl -w net.ipv4.conf.tunl0.rp_filter=0'),
        onDirector(onBoth(SHARED, 8092, '-i')),
      ),
    ),
    turns: typing(onDirector(weighted('8101:rr 8102:wrr', 3, 1))),
    share: answering('share', '3/4', async (bench, { DIRECTOR }) => {
      const lines = await bench.onNode(DIRECTOR, `ipvsadm -Sn | grep -- '-a -t ${VIP}:8102'`)
      const weights = [...lines.matchAll(/-w (\d+)/g)].map(([, weight]) => Number(weight))
      return `${Math.max(...weights)}/${weights.reduce((sum, weight) => sum + weight, 0)}`
    }),
    counting: independent(typing(onDirector(weighted('8103:lc 8104:wlc 8105:sed 8106:nq', 4, 1)))),
    sources: independent(
      typing(
        outside('ip route add local 198.18.0.0/16 dev lo'),
        onDirector('ip route add 198.18.0.0/16 via $OUT'),
        onDirector(
          `for S in 8107:sh 8108:mh; do P=\\\${S%:*}; for V in \\$P \\$((P + 10)); do ipvsadm -A -t ${VIP}:\\$V -s \\\${S#*:}; ` +
            `for R in $W1:8090 $W1:8990 $W2:8090; do ipvsadm -a -t ${VIP}:\\$V -r \\$R -m; done; done; ipvsadm -a -t ${VIP}:\\$P -r $W2:8990 -m; done`,
        ),
      ),
    ),
    destinations: independent(
      typing(
        outside('ip route add 198.19.0.0/16 via $D'),
        onDirector('ip route add local 198.19.0.0/16 dev lo'),
        onDirector(
          'for M in 8109 8110 8111; do iptables -t mangle -A PREROUTING -d 198.19.0.0/16 -p tcp --dport \\$M -m comment --comment lab-4-mark -j MARK --set-mark \\$M; done',
        ),
        onDirector(
          `for S in 8109:dh 8110:lblc 8111:lblcr; do M=\\\${S%:*}; ipvsadm -A -f \\$M -s \\\${S#*:}; ` +
            'for W in $W1 $W2; do ipvsadm -a -f \\$M -r \\$W:8090 -m -w 2; done; done',
        ),
      ),
    ),
    excluded: {
      commands: [
        `kubectl -n kube-system get configmap kube-proxy -o yaml | sed 's|excludeCIDRs:.*|excludeCIDRs: ["192.0.2.0/24"]|' | kubectl apply -f -`,
        'make ipvs',
      ],
      play: async (bench) => {
        await excludeRanges(bench, ['192.0.2.0/24'])
        await bench.mode('ipvs')
      },
    },
  },

  comments: [`lab-${LAB}`],

  async leave(bench) {
    await Promise.all([bench.remove(REAL_SERVER), clearMachines(bench), excludeRanges(bench, [])])
  },

  async reset(bench) {
    await Promise.all([solution.leave?.(bench), bench.delete('ConfigMap', 'lab-4')])
    await bench.startIn('iptables')
  },
}
