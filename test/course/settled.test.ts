import { expect, test } from 'vitest'
import { readCaptureFolder } from '../../cluster/capture-folder.ts'
import { isProgrammed } from '../../course/settled.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { breakFile, flushedCapture, kindCapture } from '../grading/solved-capture.ts'

test('a node that kube-proxy is still at work on is not programmed', () => {
  const iptables = readCaptureFolder(kindCapture('baseline'))
  const node = iptables.nodes.at(-1)?.name ?? ''
  expect(isProgrammed(new Snapshot(iptables))).toBe(true)
  // One endpoint less than the API has, as a rule's probability shows it.
  const half = breakFile(iptables, node, 'iptables-save', (text) =>
    text.replace(/^.*-A KUBE-SEP-.*-j DNAT .*\n/m, ''),
  )
  expect(isProgrammed(new Snapshot(half))).toBe(false)
})

test('a node whose kube-proxy has not written the IPv6 rules yet is not programmed', () => {
  // Recorded on a slow kernel, 50 s after the start: the control plane's KUBE-FORWARD of ip6tables
  // is empty.
  expect(isProgrammed(new Snapshot(readCaptureFolder(kindCapture('ipvs-kernel-1-iptables'))))).toBe(
    false,
  )
})

test('a node whose mode could not be read is not programmed', () => {
  const iptables = readCaptureFolder(kindCapture('baseline'))
  const [first, ...others] = iptables.nodes
  if (!first) throw new Error('no node')
  const files = new Map(
    [...first.files].filter(([file]) => file !== 'proxyMode' && file !== 'kube-proxy.log'),
  )
  expect(isProgrammed(new Snapshot({ ...iptables, nodes: [{ ...first, files }, ...others] }))).toBe(
    false,
  )
  const unread = {
    name: first.name,
    files: new Map<string, string>(),
    trouble: 'it did not answer',
  }
  expect(isProgrammed(new Snapshot({ ...iptables, nodes: [unread, ...others] }))).toBe(false)
})

test('in IPVS mode a real server is waited for, and a node that cannot be read is not', () => {
  const ipvs = flushedCapture()
  const node = ipvs.nodes.at(-1)?.name ?? ''
  expect(isProgrammed(new Snapshot(ipvs))).toBe(true)
  const half = breakFile(ipvs, node, 'ipvsadm-save', (text) => text.replace(/^-a .*\n/m, ''))
  expect(isProgrammed(new Snapshot(half))).toBe(false)
  const garbled = breakFile(ipvs, node, 'iptables-save', () => '*nat\nnonsense\n')
  expect(isProgrammed(new Snapshot(garbled))).toBe(true)
})
