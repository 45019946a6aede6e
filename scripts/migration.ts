// Reports what a change of kube-proxy's mode does to a cluster. See --help.
import { parseArgs } from 'node:util'
import { runningCluster } from '../cluster/select.ts'
import { migrationOptions, reportMigration } from '../course/migration.ts'
import { main } from '../host/main.ts'
import { isOn } from '../host/switches.ts'

const USAGE = `Usage: make migration TO=MODE [FROM=MODE] [OBJECTS=FILE | CAPTURE=DIR] [NODE=NAME]
       node --import tsx scripts/migration.ts [--objects FILE | --capture DIR] --to MODE [--from MODE] [--kube-proxy VERSION] [--json]

Reports what changes for the clients of each Service when kube-proxy runs in another mode: what no longer answers, what answers
newly, where the client address or the selection of endpoints changes, why, and what to do before. It sends no packet and
changes nothing: it predicts the rules of both modes and traces connections through them.

  --objects FILE      output of "kubectl get nodes,services,endpointslices,configmaps -A -o json"; - reads standard input;
                      without it, the running cluster is read, also the addresses of its nodes
  --capture DIR       a capture of make capture instead
  --to MODE           iptables, ipvs, nftables, userspace (1.20 only), also with a version: nftables@v1.34
  --from MODE         the same; default: the mode of kube-proxy's ConfigMap, else iptables
  --kube-proxy VER    its version on both sides; default: the oldest that a Node reports
  --config FILE       a KubeProxyConfiguration instead of the ConfigMap's
  --node NAME         only this node, may be repeated; default: all
  --json              the report as JSON (docs/migration-report.md)

Exit status: 0 nothing stops, 1 something does, 2 error.
`

await main(async () => {
  const { json, ...options } = parseArgs({ options: migrationOptions }).values
  return reportMigration({ ...options, json: json || isOn('JSON') }, runningCluster)
}, USAGE)
