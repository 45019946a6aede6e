import type { V1Deployment, V1Service } from '@kubernetes/client-node'
import type { Api, Draft } from './apiserver/api.ts'
import { kubeProxyConfigMap, kubeProxyDaemonSet } from './kube-proxy/manifests.ts'

const namespace = 'kube-system'
const dnsLabel = { 'k8s-app': 'kube-dns' }

/** Cluster DNS as kubeadm installs it; on kind both replicas run on the control plane, the first node to be there. */
const dnsDeployment: V1Deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'coredns', namespace, labels: dnsLabel },
  spec: {
    replicas: 2,
    selector: { matchLabels: dnsLabel },
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } },
    template: {
      metadata: { labels: dnsLabel },
      spec: {
        priorityClassName: 'system-cluster-critical',
        serviceAccountName: 'coredns',
        nodeSelector: { 'kubernetes.io/os': 'linux', 'node-role.kubernetes.io/control-plane': '' },
        tolerations: [
          { key: 'CriticalAddonsOnly', operator: 'Exists' },
          { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' },
        ],
        dnsPolicy: 'Default',
        containers: [
          {
            name: 'coredns',
            image: 'registry.k8s.io/coredns/coredns:v1.12.1',
            ports: [
              { name: 'dns', containerPort: 53, protocol: 'UDP' },
              { name: 'dns-tcp', containerPort: 53, protocol: 'TCP' },
              { name: 'metrics', containerPort: 9153, protocol: 'TCP' },
            ],
          },
        ],
      },
    },
  },
}

const dnsService: V1Service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: 'kube-dns',
    namespace,
    labels: { ...dnsLabel, 'kubernetes.io/cluster-service': 'true', 'kubernetes.io/name': 'CoreDNS' },
  },
  spec: {
    clusterIP: '10.96.0.10',
    selector: dnsLabel,
    ports: [
      { name: 'dns', port: 53, protocol: 'UDP', targetPort: 53 },
      { name: 'dns-tcp', port: 53, protocol: 'TCP', targetPort: 53 },
      { name: 'metrics', port: 9153, protocol: 'TCP', targetPort: 9153 },
    ],
  },
}

/** Puts into kube-system what kubeadm leaves there: cluster DNS and kube-proxy with their accounts. */
export function createAddons(
  api: Api,
  options: { controlPlane: string; kubeProxyVersion: string; genuine: boolean },
): void {
  const server = `https://${options.controlPlane}:6443`
  const draft = (object: object) => object as Draft
  for (const name of ['coredns', 'kube-proxy']) api.create('serviceaccounts', namespace, { metadata: { name } })
  api.create('configmaps', namespace, draft(kubeProxyConfigMap({ server })))
  api.create(
    'daemonsets',
    namespace,
    draft(kubeProxyDaemonSet({ version: options.kubeProxyVersion, genuine: options.genuine })),
  )
  api.create('services', namespace, draft(dnsService))
  api.create('deployments', namespace, draft(dnsDeployment))
}
