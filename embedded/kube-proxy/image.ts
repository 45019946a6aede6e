import { createInterface } from 'node:readline'
import { $ } from '../../host/command.ts'
import { parseImageReference } from '../../host/image-reference.ts'
import { kubeconfig } from '../apiserver/certificate.ts'
import { gitVersion } from '../apiserver/documents.ts'
import type { BuiltinContainer, BuiltinImage } from '../kubelet/images/registry.ts'
import { KubeProxy, type KubeProxyContext } from './kube-proxy.ts'
import { mountedConfig } from './settings.ts'

/** The version that the image's tag names: `registry.k8s.io/kube-proxy:v1.34.11` is `v1.34.11`. */
function versionOfImage(image = ''): string {
  const { tag = '' } = parseImageReference(image)
  return /^v\d+\.\d+/.test(tag) ? tag : gitVersion
}

/**
 * The image of kube-proxy's DaemonSet: ours in the version that the tag names, or a genuine
 * program.
 */
export function kubeProxyImage(genuine?: GenuineOptions): BuiltinImage {
  return {
    names: ['registry.k8s.io/kube-proxy'],
    tags: /^v1\.\d{1,2}\.\d{1,2}/,
    about: genuine
      ? `the genuine kube-proxy "${genuine.binary}"`
      : 'kube-proxy, in modes iptables and ipvs',
    start: async (context) =>
      genuine
        ? startGenuine(context, genuine)
        : new KubeProxy(context, versionOfImage(context.container.image)),
  }
}

export interface GenuineOptions {
  /** Path of the kube-proxy program on this machine; the guest sees the same file. */
  binary: string
  /** The URL of the API server for the nodes, such as https://172.18.0.2:6443. */
  server: string
  /** The API server's certificate authority, PEM. */
  ca: string
  token: string
}

/**
 * The output of `kube-proxy --version`, such as `v1.30.3`. Throws with the path if it is not a
 * kube-proxy.
 */
export async function versionOfProgram(binary: string): Promise<string> {
  const { stdout } = await $({ quiet: true, nothrow: true, timeout: 10_000 })`${binary} --version`
  const version = /\bv\d+\.\d+\.\d+/.exec(stdout)?.[0]
  if (!version)
    throw new Error(
      `KUBE_PROXY="${binary}" is not a kube-proxy that runs here: give the path of the program.`,
    )
  return version
}

/** Where kubeadm mounts kube-proxy's ConfigMap, and its configuration expects the kubeconfig. */
const folder = '/var/lib/kube-proxy'

/**
 * Runs a genuine kube-proxy in the node's namespaces, with the ConfigMap's present configuration.
 * Its rules remain after it stops.
 */
async function startGenuine(
  context: KubeProxyContext,
  options: GenuineOptions,
): Promise<BuiltinContainer> {
  const { machine, placement, pod, api, node, log } = context
  const configuration = mountedConfig(pod, api)
  const end = '==END-OF-FILE=='
  const script = [
    `mkdir -p ${folder}`,
    `cat >${folder}/config.conf <<'${end}'\n${configuration}\n${end}`,
    `cat >${folder}/kubeconfig.conf <<'${end}'\n${kubeconfig({ name: 'default', ...options })}${end}`,
    `exec "$0" --config=${folder}/config.conf --hostname-override="$1"`,
  ]
  const command = ['sh', '-c', script.join('\n'), options.binary, node]
  const process = await machine.spawn(command, placement, { noInput: true })
  for (const output of [process.stdout, process.stderr])
    createInterface({ input: output }).on('line', log)
  return {
    exited: process.exited.then(({ exitCode }) => exitCode),
    programs: { 'kube-proxy': [options.binary] },
    async stop() {
      process.kill('SIGKILL')
      await process.exited
    },
  }
}
