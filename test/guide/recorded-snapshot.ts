import { readFileSync } from 'node:fs'
import { CAPTURE_FILES } from '../../dataplane/capture.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { NODE, recordingPath } from '../dataplane/recordings.ts'

const FILTER = `*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n`

/** The files of a recorded node; in nftables mode its nf_tables, and iptables without rules. */
function filesAt(mode: string, scenario: string): Map<string, string> {
  const folder = recordingPath('v1.30.3', mode, scenario)
  const textOf = (name: string) => {
    try {
      return readFileSync(`${folder}/${name}`, 'utf8')
    } catch {
      return undefined
    }
  }
  const files = CAPTURE_FILES.flatMap((name): [string, string][] => {
    const text = textOf(name === 'nft-ip.json' ? 'nft.json' : name)
    return text === undefined ? [] : [[name, text]]
  })
  return new Map([
    ['iptables-save', FILTER],
    ['ip6tables-save', FILTER],
    ...files,
    ['proxyMode', mode],
  ])
}

/**
 * A cluster of one node as a genuine kube-proxy 1.30.3 left it, with its iptables edited and `more`
 * files.
 */
export function recordedSnapshot(
  mode: string,
  scenario: string,
  edit = (rules: string) => rules,
  more: Record<string, string> = {},
): Snapshot {
  const files = new Map([...filesAt(mode, scenario), ...Object.entries(more)])
  files.set('iptables-save', edit(files.get('iptables-save') ?? ''))
  const { items } = JSON.parse(readFileSync(recordingPath('objects', `${scenario}.json`), 'utf8'))
  const kubeProxy = {
    kind: 'Pod',
    metadata: {
      namespace: 'kube-system',
      name: 'kube-proxy-1',
      labels: { 'k8s-app': 'kube-proxy' },
    },
    spec: { nodeName: NODE, containers: [{ image: 'registry.k8s.io/kube-proxy:v1.30.3' }] },
  }
  return new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items: [...items, kubeProxy] },
    nodes: [{ name: NODE, files }],
  })
}
