import type { BuiltinImage } from '../kubelet/images/registry.ts'
import { KubeProxy } from './kube-proxy.ts'

const version = (reference: string) => /:(v[\d.]+)/.exec(reference)?.[1] ?? 'v1.34.11'

/** The image of kube-proxy's DaemonSet: ours, in the version that the tag names. */
export const kubeProxyImage: BuiltinImage = {
  names: ['registry.k8s.io/kube-proxy'],
  about: 'kube-proxy, in modes iptables and ipvs',
  async start({ pod, container, node, machine, placement, api, log }) {
    return new KubeProxy(
      { pod, node, machine, placement, api, log },
      version(container.image ?? ''),
    )
  },
}
