import { posix } from 'node:path'
import type { Api } from '../apiserver/api.ts'
import type { ServiceObject } from '../controllers/resources.ts'
import { fstabWord, type GuestFile } from '../machine/machine.ts'
import { nodeResolvConf, nodeRoot, shellProfile } from '../network/node-setup.ts'
import { dataOf, hostnameOf } from './environment.ts'
import type { ProcessImage } from './images/registry.ts'
import type { Container, ContainerContext, NodeContext, Pod, Volume } from './objects.ts'

/** A volume can't be made; the message is the kubelet's. */
export class MountError extends Error {}

/** Folder of a Pod in the guest. */
export const podFolder = (uid: string) => `/run/pods/${uid}`

/** The path of a volume in the guest; a hostPath is in the file system of the Pod's node. */
function sourceOf(pod: Pod, { name, hostPath }: Volume): string {
  return hostPath
    ? nodeRoot(pod.spec.nodeName ?? '') + hostPath.path
    : `${podFolder(pod.metadata.uid)}/volumes/${name}`
}

/**
 * The files of a ConfigMap's or Secret's volume: all keys of the object, or the selected ones at
 * their paths.
 */
function volumeFiles(api: Api, pod: Pod, volume: Volume): GuestFile[] {
  const { configMap, secret } = volume
  const object = configMap ?? secret
  if (!object) return []
  const kind = configMap ? 'configmap' : 'secret'
  const name = configMap?.name ?? secret?.secretName
  const data = dataOf(api, pod.metadata.namespace, kind, name)
  if (!data && !object.optional)
    throw new MountError(
      `MountVolume.SetUp failed for volume "${volume.name}" : ${kind} "${name}" not found`,
    )
  const items =
    object.items ?? [...(data?.keys() ?? [])].map((key) => ({ key, path: key, mode: undefined }))
  return items.flatMap(({ key, path, mode = object.defaultMode }) => {
    const content = data?.get(key)
    const file = { path: posix.join(sourceOf(pod, volume), path), content }
    return content === undefined ? [] : [{ ...file, content, ...(mode !== undefined && { mode }) }]
  })
}

/**
 * The files and folders of all volumes of a Pod.
 * @throws MountError naming the volume, if its source does not exist
 */
export function podVolumes(api: Api, pod: Pod): GuestFile[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => {
    const source = sourceOf(pod, volume)
    const folder = { path: `${source}/`, content: '' }
    if (!volume.hostPath) return [folder, ...volumeFiles(api, pod, volume)]
    if (volume.hostPath.type === 'FileOrCreate')
      return [{ path: source, content: '', ifMissing: true }]
    return volume.hostPath.type === 'DirectoryOrCreate' ? [folder] : []
  })
}

// An absolute link in the path would lead out of the container's root, because it is set up from
// outside.
const withoutLinks = (path: string) =>
  path.replace(/^\/var\/(run|lock)(?=\/|$)/, (_, name) => (name === 'run' ? '/run' : '/run/lock'))

/**
 * Mounts of a container's volumes below its root; a file to be mounted over is among `files`, with
 * its path in `upper`.
 */
function volumeMounts(pod: Pod, container: Container, root: string, upper: string) {
  const files: GuestFile[] = []
  const mounts = (container.volumeMounts ?? []).flatMap(
    ({ name, mountPath, subPath, readOnly }) => {
      const volume = pod.spec.volumes?.find((one) => one.name === name) ?? { name }
      const target = withoutLinks(posix.normalize(mountPath).replace(/(?<=.)\/$/, ''))
      const isFile =
        (subPath && (volume.configMap || volume.secret)) ||
        volume.hostPath?.type?.startsWith('File')
      if (isFile) files.push({ path: upper + target, content: '' })
      const isNodeRoot = volume.hostPath?.path === '/'
      // With the host's kernel, each folder of programs is a mount of its own in it.
      const options = [
        isNodeRoot ? 'rbind' : 'bind',
        ...(isFile ? [] : ['X-mount.mkdir']),
        ...(readOnly ? ['ro'] : []),
      ]
      const at = fstabWord(root + target)
      const source = fstabWord(posix.join(sourceOf(pod, volume), subPath ?? ''))
      const mounted = `${source} ${at} none ${options.join(',')} 0 0`
      // `chroot /host` in the Pod of `kubectl debug node/…` needs them; the node's mounts are in
      // its own namespace.
      return isNodeRoot ? [mounted, `proc ${at}/proc proc`, `sysfs ${at}/sys sysfs`] : [mounted]
    },
  )
  return { files, mounts }
}

/** The mounts of a container's devices, before volumes below them. */
const containerDevices = (root: string) => [
  `tmpfs ${root}/dev tmpfs nosuid,noexec,mode=0755,size=64k 0 0`,
  `devpts ${root}/dev/pts devpts nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,X-mount.mkdir 0 0`,
  `shm ${root}/dev/shm tmpfs nosuid,nodev,noexec,mode=1777,size=64m,X-mount.mkdir 0 0`,
]

/**
 * The file system of one run of a container: the path of a fresh layer over the guest's files, and
 * the files and mounts (an fstab) of it.
 */
export function containerRoot(
  { api, machine }: Pick<NodeContext, 'api' | 'machine'>,
  image: ProcessImage,
  context: ContainerContext,
  run: number,
) {
  const { pod, container, podIP } = context
  const folder = `${podFolder(pod.metadata.uid)}/${container.name}-${run}`
  const [root, upper, work] = [`${folder}/root`, `${folder}/upper`, `${folder}/work`]
  const layer = machine.layer(root, upper, work)
  const volumes = volumeMounts(pod, container, root, upper)
  const hostname = hostnameOf(context)
  const own: GuestFile[] = [
    { path: '/etc/hosts', content: podHosts(hostname, podIP) },
    { path: '/etc/resolv.conf', content: podResolvConf(api, pod) },
    ...(pod.spec.hostNetwork ? [] : [{ path: '/etc/hostname', content: `${hostname}\n` }]),
    { path: '/root/.bashrc', content: shellProfile },
    ...(image.files?.(context) ?? []),
  ]
  const folders = [root, upper, work, ...layer.folders]
  const mounts = [
    ...layer.mounts,
    ...(container.securityContext?.privileged
      ? [`/dev ${root}/dev none rbind 0 0`]
      : containerDevices(root)),
    `tmpfs ${root}/tmp tmpfs mode=1777 0 0`,
    ...(image.emptyFolders ?? []).map(
      (path) => `tmpfs ${root}${path} tmpfs mode=0755,X-mount.mkdir 0 0`,
    ),
    ...volumes.mounts,
  ]
  const fstab = `${folder}/fstab`
  const files: GuestFile[] = [
    ...own.map((file) => ({ ...file, path: upper + file.path })),
    ...volumes.files,
    ...folders.map((path) => ({ path: `${path}/`, content: '' })),
    { path: fstab, content: `${mounts.join('\n')}\n` },
  ]
  return { root, fstab, files }
}

const clusterDomain = 'cluster.local'

/** A Pod's /etc/hosts as the kubelet writes it. */
const podHosts = (hostname: string, podIP: string) => `# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
${podIP}\t${hostname}
`

/** A Pod's /etc/resolv.conf by its DNS policy: cluster DNS, or the node's. */
function podResolvConf(api: Api, { metadata: { namespace }, spec }: Pod): string {
  const { dnsPolicy = 'ClusterFirst', hostNetwork } = spec
  if (dnsPolicy !== 'ClusterFirstWithHostNet' && (dnsPolicy !== 'ClusterFirst' || hostNetwork))
    return nodeResolvConf
  const dns =
    api.get<ServiceObject>('services', 'kube-system', 'kube-dns')?.spec.clusterIP ?? '10.96.0.10'
  const domains = [`${namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain]
  return `search ${domains.join(' ')}\nnameserver ${dns}\noptions ndots:5\n`
}
