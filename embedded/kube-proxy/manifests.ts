import type { V1ConfigMap, V1DaemonSet } from '@kubernetes/client-node'

/** Annotation of the DaemonSet of an embedded cluster that runs a genuine program, which has only one version. */
export const genuineAnnotation = 'kube-service-labs/genuine'

/** KubeProxyConfiguration as kubeadm writes it for kind: every field, in alphabetical order, defaults left open. */
const configConf = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  maxPerCore: 0
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 1s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: iptables
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: null
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
`

const kubeconfig = (server: string) => `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
    server: ${server}
  name: default
contexts:
- context:
    cluster: default
    namespace: default
    user: default
  name: default
current-context: default
users:
- name: default
  user:
    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
`

const namespace = 'kube-system'
const label = { 'k8s-app': 'kube-proxy' }

/** kube-proxy's ConfigMap as kubeadm creates it; `server` is the URL of the API server. */
export const kubeProxyConfigMap = (server: string): V1ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'kube-proxy', namespace, labels: { app: 'kube-proxy' } },
  data: { 'config.conf': configConf, 'kubeconfig.conf': kubeconfig(server) },
})

/**
 * kube-proxy's DaemonSet as kubeadm creates it: on every node regardless of taints, in the host network.
 * @param version of the image's tag; a genuine program supports only its own
 */
export function kubeProxyDaemonSet(version: string, genuine: boolean): V1DaemonSet {
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: {
      name: 'kube-proxy',
      namespace,
      labels: label,
      ...(genuine && { annotations: { [genuineAnnotation]: 'true' } }),
    },
    spec: {
      selector: { matchLabels: label },
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } },
      template: {
        metadata: { labels: label },
        spec: {
          priorityClassName: 'system-node-critical',
          hostNetwork: true,
          serviceAccountName: 'kube-proxy',
          nodeSelector: { 'kubernetes.io/os': 'linux' },
          tolerations: [{ operator: 'Exists' }],
          containers: [
            {
              name: 'kube-proxy',
              image: `registry.k8s.io/kube-proxy:${version}`,
              imagePullPolicy: 'IfNotPresent',
              command: [
                '/usr/local/bin/kube-proxy',
                '--config=/var/lib/kube-proxy/config.conf',
                '--hostname-override=$(NODE_NAME)',
              ],
              env: [{ name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }],
              securityContext: { privileged: true },
              volumeMounts: [
                { name: 'kube-proxy', mountPath: '/var/lib/kube-proxy' },
                { name: 'xtables-lock', mountPath: '/run/xtables.lock' },
                { name: 'lib-modules', mountPath: '/lib/modules', readOnly: true },
              ],
            },
          ],
          volumes: [
            { name: 'kube-proxy', configMap: { name: 'kube-proxy' } },
            { name: 'xtables-lock', hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' } },
            { name: 'lib-modules', hostPath: { path: '/lib/modules' } },
          ],
        },
      },
    },
  }
}
