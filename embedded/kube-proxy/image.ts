import type { BuiltinImage } from '../kubelet/images/registry.ts'
import { type GenuineOptions, startGenuine } from './genuine.ts'
import { KubeProxy } from './kube-proxy.ts'

/** The version that the image's tag names: `registry.k8s.io/kube-proxy:v1.34.11` is `v1.34.11`. */
function versionOfImage(image: string | undefined, fallback = 'v1.34.11'): string {
  return /:(v\d+\.\d+[^@:]*)(@|$)/.exec(image ?? '')?.[1] ?? fallback
}

/** The image of kube-proxy's DaemonSet: ours in the version that the tag names, or a genuine program. */
export function kubeProxyImage(genuine?: GenuineOptions): BuiltinImage {
  return {
    names: ['registry.k8s.io/kube-proxy'],
    tags: /^v1\.\d{1,2}\.\d{1,2}/,
    about: genuine ? `the genuine kube-proxy "${genuine.binary}"` : 'kube-proxy, in modes iptables and ipvs',
    start: async (context) =>
      genuine ? startGenuine(context, genuine) : new KubeProxy(context, versionOfImage(context.container.image)),
  }
}
