// The reference solution of lab 4, played by `make solve-4` and, without a terminal, by
// `make lab-4`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { KubeProxyError } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { runOnNode } from '../../cluster/node-script.ts'
import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution, SolutionStep } from '../../course/lab-solution.ts'
import {
  answers,
  apply,
  atOnce,
  independent,
  mode,
  type OnMachine,
  predictions,
  rolledOut,
  tools,
  typing,
  withVariables,
} from '../../course/typed-commands.ts'
import { projectRoot } from '../../host/layout.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { programText } from '../../host/program-text.ts'

const LAB = 4
const REAL_SERVER = 'labs/04-lvs/manifests/real-server.yaml'
const VIP = '192.0.2.10'
const SHARED = '192.0.2.11'

/** The variables that README.md sets: names of nodes, and addresses. */
export type Variables = Record<'DIRECTOR' | 'D' | 'N1' | 'N2' | 'W1' | 'W2' | 'OUT', string>

/**
 * The values of the variables on this cluster. Throws Error unless it has a control-plane node and
 * two workers.
 */
export async function variables(bench: LabBench): Promise<Variables> {
  const [director, ...workers] = await bench.nodes()
  const [first, second] = workers.toSorted((one, other) => one.name.localeCompare(other.name))
  if (!director || !first || !second)
    throw new Error('This lab needs a control-plane node and two workers.')
  const route = await bench.onNode(OUTSIDE, `ip -4 route get ${director.address}`)
  const OUT = /\bsrc (\S+)/.exec(route)?.[1] ?? ''
  return {
    DIRECTOR: director.name,
    D: director.address,
    OUT,
    N1: first.name,
    N2: second.name,
    W1: first.address,
    W2: second.address,
  }
}

const answer = answers(LAB)
const predictAt = predictions(LAB)
const { exec, printed } = withVariables(variables)
const onDirector = (text: string): OnMachine => ['$DIRECTOR', `"${text}"`]
const outside = (text: string): OnMachine => [OUTSIDE, `"${text}"`]
const onWorkers = (text: string): OnMachine[] => ['$N1', '$N2'].map((node) => [node, `"${text}"`])

/** `PORT:SCHEDULER` … as virtual servers with both workers and these weights. */
const weighted = (pairs: string, first: number, second: number) =>
  `for S in ${pairs}; do P=\\\${S%:*}; ipvsadm -A -t ${VIP}:\\$P -s \\\${S#*:}; ` +
  `ipvsadm -a -t ${VIP}:\\$P -r $W1:8090 -m -w ${first}; ipvsadm -a -t ${VIP}:\\$P -r $W2:8090 -m -w ${second}; done`

/** A virtual server with both workers, with this forwarding method. */
const onBoth = (virtual: string, port: number, method: string) =>
  `ipvsadm -A -t ${virtual}:${port} -s rr; for W in $W1 $W2; do ipvsadm -a -t ${virtual}:${port} -r \\$W:${port} ${method}; done`

/**
 * The comparison of all schedulers: one script on the director, and the routes of the machine
 * outside.
 */
const ALL_SCHEDULERS = 'labs/04-lvs/all-schedulers.sh'
const allSchedulers: SolutionStep = {
  commands: [
    `make exec NODE=$DIRECTOR CMD="W1=$W1 W2=$W2 OUT=$OUT; $(cat ${ALL_SCHEDULERS})"`,
    'make exec NODE=outside CMD="ip route add local 198.18.0.0/16 dev lo; ip route add 198.19.0.0/16 via $D"',
  ],
  play: async (bench) => {
    const { DIRECTOR, D, W1, W2, OUT } = await variables(bench)
    const script = readFileSync(join(projectRoot, ALL_SCHEDULERS), 'utf8')
    await bench.onNode(DIRECTOR, `W1=${W1} W2=${W2} OUT=${OUT}\n${script}`)
    await bench.onNode(
      OUTSIDE,
      `ip route add local 198.18.0.0/16 dev lo; ip route add 198.19.0.0/16 via ${D}`,
    )
  },
}

/** Twenty requests to each of three virtual servers, with a word that the real servers log. */
const shortRequests: SolutionStep = {
  commands: [
    `for P in 8114 8115 8116; do echo "port $P"; make exec NODE=outside CMD="for I in \\$(seq 20); do curl -s --max-time 2 ${VIP}:$P/?mine; done | sort | uniq -c"; done`,
  ],
  play: async (bench) => {
    for (const port of [8114, 8115, 8116])
      await bench.onNode(
        OUTSIDE,
        `for I in $(seq 20); do curl -s --max-time 2 '${VIP}:${port}/?mine'; done`,
      )
  },
}

/** The virtual servers of this lab that `ipvsadm -Ln` lists by address and port. */
async function countOwnServers(bench: LabBench): Promise<string> {
  const { DIRECTOR } = await variables(bench)
  return (await bench.onNode(DIRECTOR, "ipvsadm -Ln | grep -c '^TCP *192.0.2.'")).trim()
}

/** Sends a request from outside and reads the client address in the log of its real server. */
const readRealServerLog = (bench: LabBench) =>
  bench.clientInLogs(
    'real-server',
    (mark) => bench.onNode(OUTSIDE, `curl -s --max-time 2 '${VIP}:8090/?${mark}'`),
    'nginx',
  )

export const solution: LabSolution = {
  steps: {
    stage: typing(apply(REAL_SERVER), atOnce(rolledOut('DaemonSet', 'real-server'), tools)),
    'virtual-server': independent(
      typing(
        predictAt('virtual-server', 'silence', 'silence'),
        exec(
          onDirector(`ip addr add ${VIP}/32 dev lo`),
          onDirector(onBoth(VIP, 8090, '-m')),
          outside('ip route add 192.0.2.0/24 via $D'),
          onDirector('sysctl -w net.ipv4.vs.conntrack=1'),
        ),
        answer('virtual-server', '$W1', async (bench) => (await variables(bench)).W1),
      ),
    ),
    hooks: independent(
      typing(
        predictAt(
          'hooks',
          "'PREROUTING, INPUT, OUTPUT, POSTROUTING'",
          'PREROUTING, INPUT, OUTPUT, POSTROUTING',
        ),
        exec(
          onDirector(
            'for HOOK in PREROUTING INPUT FORWARD OUTPUT POSTROUTING; do iptables -t mangle -A \\$HOOK -p tcp --syn --dport 8090 -m comment --comment lab-4; done',
          ),
          outside(`curl -sS --max-time 2 ${VIP}:8090/?mine`),
        ),
      ),
    ),
    'unseen-hook': printed(
      answer,
      'unseen-hook',
      ...onDirector(
        String.raw`iptables-save -c -t mangle | sed -n 's/^\[0:0\] -A \([A-Z]*\) .*lab-4$/\1/p'`,
      ),
    ),
    nat: predictAt('nat', '$W1', async (bench) => (await variables(bench)).W1),
    'seen-client': answer(
      'seen-client',
      `"$(kubectl logs $RS -c nginx --tail=1 | cut -d' ' -f1)"`,
      readRealServerLog,
    ),
    'direct-routing': typing(
      predictAt('direct-routing', SHARED, SHARED),
      exec(
        onDirector(`ip addr add ${SHARED}/32 dev lo`),
        ...onWorkers(`ip addr add ${SHARED}/32 dev lo`),
        onDirector(onBoth(SHARED, 8091, '-g')),
        outside(`curl -sS --max-time 2 ${SHARED}:8091/?direct`),
      ),
    ),
    frame: printed(answer, 'frame', '$N1', '"cat /sys/class/net/eth0/address"'),
    tunnel: independent(
      typing(
        predictAt('tunnel', '20', '20'),
        exec(
          ...onWorkers(
            'modprobe ipip; ip link set tunl0 up; sysctl -w net.ipv4.conf.tunl0.rp_filter=0',
          ),
          onDirector(onBoth(SHARED, 8092, '-i')),
          outside(`curl -sS --max-time 2 ${SHARED}:8092/?mine ${SHARED}:8092/?mine`),
        ),
      ),
    ),
    turns: typing(
      predictAt('turns', '4', '4'),
      exec(
        onDirector(weighted('8101:rr 8102:wrr', 3, 1)),
        outside(
          `for P in 8101 8102; do echo port \\$P; for I in 1 2 3 4 5 6 7 8; do curl -s --max-time 2 ${VIP}:\\$P/?mine; done; done`,
        ),
      ),
    ),
    share: answer('share', '3/4', '3/4'),
    'short-requests': independent(
      typing(
        predictAt('short-requests', '20', '20'),
        exec(onDirector(weighted('8114:wlc 8115:sed 8116:nq', 1, 1))),
        shortRequests,
        answer('short-requests', 'ActiveConn', 'ActiveConn'),
      ),
    ),
    counting: independent(typing(predictAt('counting', '6', '6'), allSchedulers)),
    sources: predictAt('sources', "'nearly all'", 'nearly all'),
    destinations: predictAt('destinations', '9', '9'),
    excluded: typing(
      predictAt(
        'excluded',
        `"$(make -s exec NODE=$DIRECTOR CMD='ipvsadm -Ln' | grep -c '^TCP *192.0.2.')"`,
        countOwnServers,
      ),
      {
        commands: [
          `kubectl -n kube-system get configmap kube-proxy -o yaml | sed 's|excludeCIDRs:.*|excludeCIDRs: ["192.0.2.0/24"]|' | kubectl apply -f -`,
        ],
        play: (bench) => excludeRanges(bench, ['192.0.2.0/24']),
      },
      mode('ipvs'),
    ),
    incident: solveIncident(LAB),
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

// Cleanup: removes the lab's changes from every machine.

/**
 * Virtual servers of this lab's addresses and marks, the addresses, routes, tunl0, and the IPVS
 * settings.
 */
const clearNode = programText('labs/04-lvs/clear-node.sh')

const clearOutside = programText('labs/04-lvs/clear-outside.sh')

/** Clears every node and the machine outside; missing parts are ignored. */
async function clearMachines({ cluster }: LabBench): Promise<void> {
  const nodes = (await cluster.nodes()).map((node) => runOnNode(cluster, node, clearNode))
  const others = cluster.capabilities.hasOutside ? [runOnNode(cluster, OUTSIDE, clearOutside)] : []
  await Promise.all([...nodes, ...others])
}

/** Writes ipvs.excludeCIDRs into kube-proxy's configuration; kube-proxy reads it when it starts. */
export async function excludeRanges(bench: LabBench, ranges: readonly string[]): Promise<void> {
  try {
    await bench.editKubeProxyConfig((text) =>
      ranges.length === 0 && !/^ *excludeCIDRs: *(?:\[[^\]]|\n *-)/m.test(text)
        ? text
        : text.replace(/^( *excludeCIDRs:).*(?:\n *- .*)*/m, `$1 ${JSON.stringify(ranges)}`),
    )
  } catch (error) {
    // Without that ConfigMap there is nothing to exclude from.
    if (!(error instanceof KubeProxyError)) throw error
  }
}
