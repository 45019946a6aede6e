import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * The checkout: the nearest folder with a package.json, above this module or above the bundle that
 * it is in (scripts/start.mjs).
 */
export const projectRoot = (function nearest(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : nearest(dirname(folder))
})(import.meta.dirname)

/**
 * Runs another program of this project, in its own process or thread: node START embedded/daemon.ts
 * …
 */
export const START = join(projectRoot, 'scripts/start.mjs')

/** Everything that can be recreated: packages, binaries and the running clusters' files. */
export const cacheFolder = join(projectRoot, '.cache')

/** In an unpacked offline archive (`make bundle`): its programs and its root file system. */
const offlineFolder = join(projectRoot, '.offline')
export const offlineRoot = existsSync(offlineFolder) ? join(offlineFolder, 'root') : undefined

/** Folder of one cluster's files. */
export const clusterFolder = (name: string) => join(cacheFolder, 'clusters', name)

/** Folder of one kind cluster's files; an embedded cluster of the same name has another folder. */
export const kindFolder = (name: string) => join(cacheFolder, 'kind', name)

/**
 * The folder of a learner's membership in a room and of what waits to be sent, one for each
 * cluster.
 */
export const roomMemberFolder = (name = clusterName()): string => join(cacheFolder, 'room', name)

/** The file that exists while a learner is in a room. */
export const roomMemberFile = (folder = roomMemberFolder()): string => join(folder, 'member.json')

/** The name and addresses of one node, for every driver. */
export interface NodePlan {
  name: string
  address: string
  podCIDR: string
}

/** Control plane first, then two workers, with kind's addresses. */
export function nodePlans(clusterName: string): NodePlan[] {
  return ['control-plane', 'worker', 'worker2'].map((role, index) => ({
    name: `${clusterName}-${role}`,
    address: `172.18.0.${index + 2}`,
    podCIDR: `10.244.${index}.0/24`,
  }))
}

const nameRule = /^[a-z0-9]([a-z0-9.-]{0,48}[a-z0-9])?$/

/** The longest value of a label: kubelet puts the node's name into kubernetes.io/hostname. */
const LONGEST_LABEL = 63

/**
 * The cluster's name from `NAME` (default k8s-guide). Throws if it is not valid for nodes and
 * folders.
 */
export function clusterName(value = process.env.NAME): string {
  const name = value || 'k8s-guide'
  if (!nameRule.test(name) || name.includes('..')) throw unusable(name)
  return name
}

/**
 * Throws if a new cluster can't have this name, though one of an earlier version may have it, which
 * `make down` removes.
 */
export function requireNewName(name: string): void {
  const isTooLong = nodePlans(name).some((node) => node.name.length > LONGEST_LABEL)
  // Each part of a node's name between dots is a label of the DNS (RFC 1123).
  if (isTooLong || /-\.|\.-/.test(name)) throw unusable(name)
}

const unusable = (name: string) =>
  new Error(
    `"${name}" can't be the name of a cluster: use lower-case letters, digits and dashes, at most 49, as in \`NAME=k8s-guide make up\`.`,
  )
