import { posix } from 'node:path'
import type { Api } from '../apiserver/api.ts'
import type { Service } from '../controllers/resources.ts'
import type { GuestFile } from '../machine/machine.ts'
import { nodeRoot, shellProfile } from '../network/node-setup.ts'
import type { GuestWork } from '../network/pod-link.ts'
import { dataOf, fieldValue } from './environment.ts'
import type { ProcessImage } from './images/registry.ts'
import type { ContainerContext, NodeContext, PodSandbox } from './node-context.ts'
import type { Container, KeyToPath, Pod, Volume } from './objects.ts'

/** A volume can't be made; the message is the kubelet's. */
export class MountError extends Error {}

/** Folder of a Pod in the guest. */
export const podFolder = (uid: string) => `/run/pods/${uid}`

type Source = Pick<Volume, 'configMap' | 'downwardAPI'> & {
  /** A projected Secret has a `name` instead. */
  secret?: NonNullable<Volume['secret']> & { name?: string }
}

/** The files of a volume, or of one source of a projected one: all keys of an object, or the selected ones at their paths. */
function sourceFiles(api: Api, sandbox: PodSandbox, source: Source): GuestFile[] {
  const { configMap, secret, downwardAPI } = source
  const object = configMap ?? secret
  if (!object)
    return (downwardAPI?.items ?? []).flatMap(({ path, fieldRef }) =>
      fieldRef ? [{ path, content: fieldValue(fieldRef.fieldPath, sandbox) }] : [],
    )
  const kind = configMap ? 'configmap' : 'secret'
  const name = object.name ?? secret?.secretName
  const data = dataOf(api, sandbox.pod.metadata.namespace, kind, name)
  if (!data && !object.optional) throw new MountError(`${kind} "${name}" not found`)
  const chosen: KeyToPath[] = object.items ?? [...(data?.keys() ?? [])].map((key) => ({ key, path: key }))
  return chosen.flatMap(({ key, path, mode = object.defaultMode }) => {
    const content = data?.get(key)
    return content === undefined ? [] : [{ path, content, ...(mode !== undefined && { mode }) }]
  })
}

const folderOf = (pod: Pod, volume: Volume) => `${podFolder(pod.metadata.uid)}/volumes/${volume.name}`

/** The path of a volume in the guest; a hostPath is in the file system of the Pod's node. */
function sourceOf(pod: Pod, volume: Volume): string {
  return volume.hostPath ? nodeRoot(pod.spec.nodeName ?? '') + volume.hostPath.path : folderOf(pod, volume)
}

/**
 * Prepares all volumes of a Pod before its first container.
 * @throws MountError naming the volume, if its source does not exist
 */
export function podVolumes(api: Api, sandbox: PodSandbox): { files: GuestFile[]; folders: string[] } {
  const { pod } = sandbox
  const files: GuestFile[] = []
  const folders: string[] = []
  for (const volume of pod.spec.volumes ?? []) {
    const { hostPath } = volume
    if (hostPath?.type === 'FileOrCreate') files.push({ path: sourceOf(pod, volume), content: '' })
    else if (hostPath?.type === 'DirectoryOrCreate') folders.push(sourceOf(pod, volume))
    if (hostPath) continue
    folders.push(folderOf(pod, volume))
    try {
      for (const source of volume.projected?.sources ?? [volume])
        for (const file of sourceFiles(api, sandbox, source))
          files.push({ ...file, path: posix.join(folderOf(pod, volume), file.path) })
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      throw new MountError(`MountVolume.SetUp failed for volume "${volume.name}" : ${why}`)
    }
  }
  return { files, folders }
}

const escaped = (path: string) => path.replaceAll('\\', '\\134').replaceAll(' ', '\\040').replaceAll('\t', '\\011')

// An absolute link in the path would lead out of the container's root, because it is set up from outside.
const withoutLinks = (path: string) =>
  path.replace(/^\/var\/(run|lock)(?=\/|$)/, (_, name) => (name === 'run' ? '/run' : '/run/lock'))

/** Mounts of a container's volumes below its root; a file to be mounted over is among `files`, with its path in `upper`. */
function volumeMounts(pod: Pod, container: Container, root: string, upper: string): GuestWork & { files: GuestFile[] } {
  const files: GuestFile[] = []
  const mounts = (container.volumeMounts ?? []).flatMap(({ name, mountPath, subPath, readOnly }) => {
    const volume = pod.spec.volumes?.find((one) => one.name === name) ?? { name }
    const source = posix.join(sourceOf(pod, volume), subPath ?? '')
    const target = withoutLinks(posix.normalize(mountPath).replace(/(?<=.)\/$/, ''))
    const isFile = (subPath && !volume.emptyDir && !volume.hostPath) || volume.hostPath?.type?.startsWith('File')
    if (isFile) files.push({ path: upper + target, content: '' })
    const isNodeRoot = volume.hostPath?.path === '/'
    // With the host's kernel, each folder of programs is a mount of its own in it.
    const options = [isNodeRoot ? 'rbind' : 'bind', ...(isFile ? [] : ['X-mount.mkdir']), ...(readOnly ? ['ro'] : [])]
    const mounted = `${escaped(source)} ${escaped(root + target)} none ${options.join(',')} 0 0`
    // `chroot /host` in the Pod of `kubectl debug node/…` needs them; the node's mounts are in its own namespace.
    if (!isNodeRoot) return [mounted]
    return [mounted, `proc ${escaped(root + target)}/proc proc`, `sysfs ${escaped(root + target)}/sys sysfs`]
  })
  return { files, mounts }
}

/** A container's file system: the files to write, the mounts, and its path. */
export interface ContainerRoot {
  root: string
  files: GuestFile[]
  work: GuestWork
}

/** The mounts of a container's devices, before volumes below them. */
const containerDevices = (root: string) => [
  `tmpfs ${root}/dev tmpfs nosuid,noexec,mode=0755,size=64k 0 0`,
  `devpts ${root}/dev/pts devpts nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,X-mount.mkdir 0 0`,
  `shm ${root}/dev/shm tmpfs nosuid,nodev,noexec,mode=1777,size=64m,X-mount.mkdir 0 0`,
]

/** The file system of run number `run` of a container: a fresh layer over the guest's files, with its volumes. */
export function containerRoot(
  { api, machine }: Pick<NodeContext, 'api' | 'machine'>,
  image: ProcessImage,
  context: ContainerContext,
  run: number,
): ContainerRoot {
  const { pod, container, podIP } = context
  const folder = `${podFolder(pod.metadata.uid)}/${container.name}-${run}`
  const [root, upper, work] = [`${folder}/root`, `${folder}/upper`, `${folder}/work`]
  const empty = (image.emptyFolders ?? []).map((path, index) => ({ path, source: `${folder}/empty-${index}` }))
  const layer = machine.layer(root, upper, work)
  const volumes = volumeMounts(pod, container, root, upper)
  const own: GuestFile[] = [
    { path: '/etc/hosts', content: podHosts(pod, podIP) },
    { path: '/etc/resolv.conf', content: podResolvConf(api, pod) },
    ...(pod.spec.hostNetwork
      ? []
      : [{ path: '/etc/hostname', content: `${pod.spec.hostname ?? pod.metadata.name}\n` }]),
    { path: '/root/.bashrc', content: shellProfile },
    ...(image.files?.(context) ?? []),
  ]
  return {
    root,
    files: [...own.map((file) => ({ ...file, path: upper + file.path })), ...volumes.files],
    work: {
      folders: [root, upper, work, ...layer.folders, ...empty.map(({ source }) => source)],
      mounts: [
        ...layer.mounts,
        ...(container.securityContext?.privileged ? [`/dev ${root}/dev none rbind 0 0`] : containerDevices(root)),
        `tmpfs ${root}/tmp tmpfs mode=1777 0 0`,
        ...empty.map(({ source, path }) => `${source} ${root}${path} none bind,X-mount.mkdir 0 0`),
        ...(volumes.mounts ?? []),
      ],
    },
  }
}

const clusterDomain = 'cluster.local'
const nodeNameserver = '172.18.0.1'

/** A Pod's /etc/hosts as the kubelet writes it. */
function podHosts(pod: Pod, podIP: string): string {
  const { hostname = pod.metadata.name, subdomain, hostAliases = [] } = pod.spec
  const domain = subdomain ? `${hostname}.${subdomain}.${pod.metadata.namespace}.svc.${clusterDomain}\t` : ''
  return [
    '# Kubernetes-managed hosts file.',
    '127.0.0.1\tlocalhost',
    '::1\tlocalhost ip6-localhost ip6-loopback',
    `${podIP}\t${domain}${hostname}`,
    ...hostAliases.map(({ ip, hostnames = [] }) => [ip, ...hostnames].join('\t')),
    '',
  ].join('\n')
}

/** A Pod's /etc/resolv.conf by its DNS policy: cluster DNS, or the node's. */
function podResolvConf(api: Api, pod: Pod): string {
  const { dnsPolicy = 'ClusterFirst', hostNetwork, dnsConfig } = pod.spec
  const cluster = dnsPolicy === 'ClusterFirstWithHostNet' || (dnsPolicy === 'ClusterFirst' && !hostNetwork)
  const dns = api.get<Service>('services', 'kube-system', 'kube-dns')?.spec.clusterIP ?? '10.96.0.10'
  const base =
    dnsPolicy === 'None'
      ? { servers: [], searches: [], options: [] }
      : cluster
        ? {
            servers: [dns],
            searches: [`${pod.metadata.namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain],
            options: ['ndots:5'],
          }
        : { servers: [nodeNameserver], searches: [], options: ['timeout:1', 'attempts:1'] }
  const searches = [...base.searches, ...(dnsConfig?.searches ?? [])]
  const more = (dnsConfig?.options ?? []).map(({ name, value }) => (value === undefined ? name : `${name}:${value}`))
  const options = [...base.options, ...more]
  return [
    ...(searches.length ? [`search ${searches.join(' ')}`] : []),
    ...[...base.servers, ...(dnsConfig?.nameservers ?? [])].map((server) => `nameserver ${server}`),
    ...(options.length ? [`options ${options.join(' ')}`] : []),
    '',
  ].join('\n')
}
