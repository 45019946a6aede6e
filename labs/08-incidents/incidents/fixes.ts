// Fixes and wrong fixes that several incidents have in common.

import type { Incident, WrongFix } from '../../../course/incident/incident.ts'
import type { IncidentEnvironment } from '../../../course/incident/shop.ts'

/** A Service is patched. */
export const patchService = (name: string, patch: object): Incident['fix'] => ({
  commands: () => [`kubectl patch service ${name} --type merge -p '${JSON.stringify(patch)}'`],
  play: (bench) => bench.patch('Service', name, patch),
})

/** The kube-proxy of a node is replaced, which writes everything again. */
export const replaceKubeProxyOn = (nodeOf: (environment: IncidentEnvironment) => string): Incident['fix'] => ({
  commands: (environment) => [
    `kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName=${nodeOf(environment)}`,
  ],
  play: (bench, environment) => bench.replaceKubeProxyPod(nodeOf(environment)),
})

/** One command is run on a node. */
export const runOn = (
  nodeOf: (environment: IncidentEnvironment) => string,
  command: (environment: IncidentEnvironment) => string,
): Incident['fix'] => ({
  commands: (environment) => [`make exec NODE=${nodeOf(environment)} CMD='${command(environment)}'`],
  play: (bench, environment) => bench.onNode(nodeOf(environment), command(environment)),
})

export const flushLeftovers: Incident['fix'] = { commands: () => ['make flush-nat'], play: (bench) => bench.flush() }

export const publishUnreadyPods: WrongFix = {
  what: 'the Service publishes Pods that are not ready',
  play: (bench) => bench.patch('Service', 'shop', { spec: { publishNotReadyAddresses: true } }),
  undo: (bench) => bench.patch('Service', 'shop', { spec: { publishNotReadyAddresses: null } }),
}

export const openFirewall: WrongFix = {
  what: 'the firewall is opened',
  play: (bench, { node }) => bench.onNode(node, 'iptables -I FORWARD -j ACCEPT'),
  undo: (bench, { node }) => bench.onNode(node, 'iptables -D FORWARD -j ACCEPT'),
}

export const deleteDropRule: WrongFix = {
  what: 'the rule that drops is deleted by hand',
  play: (bench, { nodes }) =>
    bench.onNode(nodes[0] ?? '', `iptables-save -t filter | grep -v 'has no local endpoints' | iptables-restore`),
}
