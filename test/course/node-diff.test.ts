import { expect, test } from 'vitest'
import { readCaptureFolder } from '../../cluster/capture-folder.ts'
import { diffSnapshots } from '../../course/guide/node-diff.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { recordingPath } from '../dataplane/recordings.ts'

const snapshot = (stage: string) =>
  new Snapshot(readCaptureFolder(recordingPath('kind-v1.20.2', stage)))
const diff = (before: string, after: string) =>
  diffSnapshots(snapshot(before), snapshot(after)).map(({ text }) => text)

test('the diff of a step lists a few lines for each place, and nodes that changed alike once', () => {
  const lines = diff('baseline', 'web-clusterip')
  expect(lines.slice(0, 3)).toEqual([
    'Kubernetes',
    '  objects: 4 more, 0 less',
    '    + Service default/web',
  ])
  const node = lines.slice(
    lines.indexOf('k8s-guide-control-plane'),
    lines.indexOf('k8s-guide-worker') - 1,
  )
  expect(node).toEqual([
    'k8s-guide-control-plane',
    '  nat KUBE-SERVICES: 2 more, 0 less',
    expect.stringMatching(
      /^ {4}\+ -A KUBE-SERVICES ! -s 10\.244\.0\.0\/16 -d .* -j KUBE-MARK-MASQ$/,
    ),
    expect.stringMatching(/^ {4}\+ -A KUBE-SERVICES -d .* -j KUBE-SVC-LOLE4ISW44XBNF3G$/),
    '  nat chains of single Services and endpoints: 9 more, 0 less',
  ])
})

test('it tells of a switch of the mode, and of nothing where nothing changed', () => {
  const lines = diff('ipvs-kernel-1-iptables', 'ipvs-kernel-2-switched-not-flushed')
  expect(lines).toEqual(
    expect.arrayContaining(['    + mode ipvs', '    - mode iptables', '  IPVS: 14 more, 0 less']),
  )
  expect(diff('baseline', 'baseline')).toEqual([
    'Nothing has changed on the nodes since this step began.',
  ])
})
