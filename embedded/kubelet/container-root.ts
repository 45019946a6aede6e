import type { GuestWork } from '../network/guest-work.ts'
import { shellProfile } from '../network/node-setup.ts'
import type { ImageContext, ProcessImage } from './images/registry.ts'
import type { NodeContext } from './node-context.ts'
import type { GuestFile } from './objects.ts'
import { podHosts, podResolvConf } from './pod-files.ts'
import { podFolder, volumeMounts } from './volumes.ts'

/** A container's file system: what must be written and mounted for it, and where it is then. */
export interface ContainerRoot {
  root: string
  files: GuestFile[]
  work: GuestWork
}

/** Where a container's devices will be, before volumes that are mounted among them. */
const containerDevices = (root: string) => [
  `tmpfs ${root}/dev tmpfs nosuid,noexec,mode=0755,size=64k 0 0`,
  `devpts ${root}/dev/pts devpts nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,X-mount.mkdir 0 0`,
  `shm ${root}/dev/shm tmpfs nosuid,nodev,noexec,mode=1777,size=64m,X-mount.mkdir 0 0`,
]

/** The file system of run number `run` of a container: a fresh layer over the guest's files, with its volumes. */
export function containerRoot(
  { api, machine }: Pick<NodeContext, 'api' | 'machine'>,
  image: ProcessImage,
  context: ImageContext,
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
