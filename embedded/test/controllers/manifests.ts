import type { Draft } from '../../apiserver/api.ts'

interface DeploymentSettings {
  replicas?: number
  image?: string
  spec?: Record<string, unknown>
  pod?: Record<string, unknown>
}

/** What `kubectl create deployment NAME --image=nginx --replicas=N` sends. */
export function deployment(
  name: string,
  { replicas = 2, image = 'nginx', spec, pod }: DeploymentSettings = {},
): Draft {
  return {
    metadata: { name, labels: { app: name } },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      ...spec,
      template: {
        metadata: { labels: { app: name } },
        spec: {
          containers: [{ name: 'nginx', image, ports: [{ containerPort: 80, name: 'http' }] }],
          ...pod,
        },
      },
    },
  }
}

/** What `kubectl expose deployment NAME --port=80` sends. */
export function service(name: string, spec: Record<string, unknown> = {}): Draft {
  return {
    metadata: { name, labels: { app: name } },
    spec: { selector: { app: name }, ports: [{ port: 80 }], ...spec },
  }
}

/** A bare Pod. */
export function pod(
  name: string,
  spec: Record<string, unknown> = {},
  labels: Record<string, string> = { app: name },
): Draft {
  return {
    metadata: { name, labels },
    spec: { containers: [{ name: 'nginx', image: 'nginx' }], ...spec },
  }
}

/** A DaemonSet like kubeadm's kube-proxy: on every node, in its network. */
export function daemonSet(
  name: string,
  spec: Record<string, unknown> = {},
  podSpec: Record<string, unknown> = {},
): Draft {
  return {
    metadata: { name },
    spec: {
      selector: { matchLabels: { 'k8s-app': name } },
      ...spec,
      template: {
        metadata: { labels: { 'k8s-app': name } },
        spec: {
          hostNetwork: true,
          tolerations: [{ operator: 'Exists' }],
          containers: [{ name, image: 'kube-proxy', ports: [{ containerPort: 10_256 }] }],
          ...podSpec,
        },
      },
    },
  }
}
