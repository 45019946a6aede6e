// Predicts the state that kube-proxy programs on a node. See --help.
import { parseArgs } from 'node:util'
import { CHOICES, expectOptions, printExpected } from '../course/expect.ts'
import { main } from '../host/main.ts'

const USAGE = `Usage: node --import tsx scripts/expect.ts --objects FILE --node NAME --mode MODE [--kube-proxy VERSION] [--as FORMAT]
       node --import tsx scripts/expect.ts --diff DIR --node NAME --mode MODE [--kube-proxy VERSION] [--objects FILE]

Prints what a genuine kube-proxy programs on a node, or compares it with the recorded state of a node.

  --objects FILE      output of "kubectl get nodes,services,endpointslices -A -o json"; - reads standard input
  --node NAME         the name of the node
  --mode MODE         ${CHOICES.mode.join(', ')}; optional when the objects contain kube-proxy's ConfigMap
  --kube-proxy VER    its version, for example v1.30 or v1.20.2; default: the version in the Node's status
  --as FORMAT         ${CHOICES.as.join(', ')} (default: all parts, as JSON)
  --diff DIR          compare with a capture (DIR/nodes/NAME/...) or with a folder of one node's files
  --config FILE       a KubeProxyConfiguration (the ConfigMap's config.conf)
  --address IP        one of the node's own addresses, may be repeated; default: from the capture or the Node
  --family FAMILY     address family of the iptables rules: ${CHOICES.family.join(' or ')}

Exit status: 0 printed or equal, 1 different, 2 error.
`

await main(async () => printExpected(parseArgs({ options: expectOptions }).values), USAGE)
