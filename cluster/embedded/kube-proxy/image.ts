import type { BuiltinImage } from '../kubelet/images/registry.ts'
import { startKubeProxy } from './kube-proxy.ts'

/** The image of kube-proxy's DaemonSet: ours, in the version that the tag names. */
export const kubeProxyImage: BuiltinImage = {
  names: ['registry.k8s.io/kube-proxy'],
  about: 'kube-proxy, in modes iptables and ipvs',
  start: async (context) => startKubeProxy(context),
}
