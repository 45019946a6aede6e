import { expect, test } from 'vitest'
import type { LabBench } from '../../course/lab-bench.ts'
import {
  answers,
  mode,
  podsReady,
  predictions,
  typing,
  withVariables,
} from '../../course/typed-commands.ts'
import { variantFor } from '../../grading/variant.ts'

/** A bench that records the commands on machines and the answers. */
function recordingBench(variant = variantFor(undefined)) {
  const calls: string[][] = []
  const bench: Partial<LabBench> = {
    variant,
    async onNode(node, script) {
      calls.push([node, script])
      return 'KUBE-SVC-1\n'
    },
    answer: async (lab, step, text) => void calls.push([`${lab}/${step}`, text]),
    async inPod(pod, script) {
      calls.push([pod, script])
      return ''
    },
    predict: async (lab, step, text) => void calls.push([`predicts ${lab}/${step}`, text]),
  }
  return { calls, bench: bench as LabBench }
}

const { exec, inPod, printed } = withVariables(async () => ({ NODE: 'worker', WEB: '10.96.0.7' }))

test('a command between double quotes gets the variables and its escaped dollar signs, one between single quotes none', async () => {
  const { calls, bench } = recordingBench()
  const step = exec(
    ['$NODE', '"for P in 1 2; do curl $WEB:\\$P $OTHER; done"'],
    ['$NODE', "'echo $WEB'"],
  )
  expect(step.commands).toEqual([
    'make exec NODE=$NODE CMD="for P in 1 2; do curl $WEB:\\$P $OTHER; done"',
    "make exec NODE=$NODE CMD='echo $WEB'",
  ])
  await step.play?.(bench)
  expect(calls).toEqual([
    ['worker', 'for P in 1 2; do curl 10.96.0.7:$P $OTHER; done'],
    ['worker', 'echo $WEB'],
  ])
})

test('an answer that a command prints is read from the machine, with the names of the variant', async () => {
  const { calls, bench } = recordingBench(variantFor('alice'))
  const step = printed(answers(3, 'make answer'), 'chain', '$NODE', "'iptables-save | grep web-np'")
  expect(step.commands).toEqual([
    `make answer Q=chain A="$(make -s exec NODE=$NODE CMD='iptables-save | grep web-np')"`,
  ])
  await step.play?.(bench)
  expect(calls).toEqual([
    ['worker', `iptables-save | grep ${bench.variant.name}-np`],
    ['3/chain', 'KUBE-SVC-1'],
  ])
})

test("a request to the Service goes to the variant's port, from a Pod and from a node", async () => {
  const { calls, bench } = recordingBench(variantFor('alice'))
  await inPod('client', 'curl http://$WEB:80/?mine').play?.(bench)
  await exec(['$NODE', '"curl http://$WEB:80"']).play?.(bench)
  const { port } = bench.variant
  expect(port).not.toBe(80)
  expect(calls).toEqual([
    ['client', `curl http://10.96.0.7:${port}/?mine`],
    ['worker', `curl http://10.96.0.7:${port}`],
  ])
})

test('words joined to one step print all their commands', () => {
  expect(
    typing(mode('ipvs', { scheduler: 'lc', version: '1.20' }), podsReady('a', 'b')).commands,
  ).toEqual([
    'make ipvs SCHEDULER=lc KUBE_PROXY_VERSION=1.20',
    'kubectl wait --for=condition=Ready pod/a pod/b --timeout=90s',
  ])
})

test('a step predicts before its commands and answers after them; only the commands change the cluster', async () => {
  const { calls, bench } = recordingBench()
  const step = typing(
    predictions(2)('sets', '23', '23'),
    exec(['$NODE', "'ipset list'"]),
    answers(2)('sets', '6', '6'),
  )
  expect(step.commands).toEqual([
    'make answer LAB=2 Q=sets A=23',
    "make exec NODE=$NODE CMD='ipset list'",
    'make answer LAB=2 Q=sets A=6',
  ])
  expect(step.actions?.map(({ reads }) => reads === true)).toEqual([true, false, true])
  await step.play?.(bench)
  expect(calls).toEqual([
    ['predicts 2/sets', '23'],
    ['worker', 'ipset list'],
    ['2/sets', '6'],
  ])
})
