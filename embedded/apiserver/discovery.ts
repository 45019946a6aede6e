import { processor } from '../machine/kernel-package.ts'
import { apiVersionOf, type Resource } from './resource.ts'
import { groups, inGroup, type Served, served, subresourcesOf, unstored } from './served.ts'

/** The Kubernetes version whose API this server follows. */
export const gitVersion = 'v1.34.11'

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']

interface Subresource {
  name: string
  kind: string
  group: string
  version: string
  verbs: string[]
}

export function versionInfo(): object {
  return {
    major: '1',
    minor: '34',
    gitVersion,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: '',
    compiler: '',
    platform: `${process.platform}/${processor?.kubernetes}`,
  }
}

/** `/api`: versions of the core group. */
export function coreVersions(): object {
  return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] }
}

/** `/apis`: all named groups. */
export function groupList(): object {
  return { kind: 'APIGroupList', apiVersion: 'v1', groups: named().map(groupInfo) }
}

/** `/apis/GROUP`, or undefined for a group that isn't served. */
export function groupDocument(group: string): object | undefined {
  const own = named().find((candidate) => candidate.group === group)
  return own && { kind: 'APIGroup', apiVersion: 'v1', ...groupInfo(own) }
}

function named(): { group: string; version: string }[] {
  return groups().filter(({ group }) => group !== '')
}

function groupInfo({ group, version }: { group: string; version: string }) {
  const own = { groupVersion: `${group}/${version}`, version }
  return { name: group, versions: [own], preferredVersion: own }
}

/** `/api/v1` and `/apis/GROUP/VERSION`: the resources of one version, or undefined when it isn't served. */
export function resourceList(groupVersion: string): object | undefined {
  const list = inGroup(served, groupVersion)
  const others = inGroup(unstored, groupVersion)
  if (list.length + others.length === 0) return undefined
  const resources = [
    ...list.flatMap((resource) => [
      {
        name: resource.name,
        singularName: resource.singular,
        namespaced: resource.namespaced,
        kind: resource.kind,
        verbs,
        ...(resource.shortNames && { shortNames: resource.shortNames }),
        ...(resource.categories && { categories: resource.categories }),
      },
      ...subresources(resource).map(({ name, kind, group, version, verbs: own }) => ({
        name: `${resource.name}/${name}`,
        singularName: '',
        namespaced: resource.namespaced,
        kind,
        verbs: own,
        ...((group !== resource.group || version !== resource.version) && { group, version }),
      })),
    ]),
    ...others.map(({ name, singular, namespaced, kind, verbs: own, shortNames }) => ({
      ...{ name, singularName: singular, namespaced, kind, verbs: own, ...(shortNames && { shortNames }) },
    })),
  ]
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources }
}

/**
 * Aggregated discovery (apidiscovery.k8s.io/v2): the format that kubectl since 1.26 requests at `/api` and
 * `/apis`.
 */
export function aggregatedDiscovery(core: boolean): object {
  const items = groups().filter(({ group }) => (group === '') === core)
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: 'apidiscovery.k8s.io/v2',
    metadata: {},
    items: items.map(({ group, version }) => ({
      metadata: { name: group || undefined, creationTimestamp: null },
      versions: [{ version, freshness: 'Current', resources: aggregatedResources(apiVersionOf({ group, version })) }],
    })),
  }
}

function aggregatedResources(groupVersion: string): object[] {
  const list = inGroup(served, groupVersion).map((resource) => ({
    ...aggregated(resource, resource.namespaced, verbs),
    ...(resource.shortNames && { shortNames: resource.shortNames }),
    ...(resource.categories && { categories: resource.categories }),
    subresources: subresources(resource).map(({ name, kind, group, version, verbs: own }) => ({
      subresource: name,
      responseKind: { group, version, kind },
      verbs: own,
    })),
  }))
  const others = inGroup(unstored, groupVersion).map((other) => ({
    ...aggregated(other, other.namespaced, other.verbs),
    ...(other.shortNames && { shortNames: other.shortNames }),
  }))
  return [...list, ...others]
}

function aggregated(
  { name, kind, group, version, singular }: Pick<Resource, 'name' | 'kind' | 'group' | 'version' | 'singular'>,
  namespaced: boolean,
  own: readonly string[],
) {
  return {
    resource: name,
    responseKind: { group, version, kind },
    scope: namespaced ? 'Namespaced' : 'Cluster',
    singularResource: singular,
    verbs: own,
  }
}

function subresources(resource: Served): Subresource[] {
  const { kind, group, version } = resource
  const known: Record<string, Subresource> = {
    status: { name: 'status', kind, group, version, verbs: ['get', 'patch', 'update'] },
    scale: { name: 'scale', kind: 'Scale', group: 'autoscaling', version: 'v1', verbs: ['get', 'patch', 'update'] },
    log: { name: 'log', kind, group, version, verbs: ['get'] },
    binding: { name: 'binding', kind: 'Binding', group, version, verbs: ['create'] },
    eviction: { name: 'eviction', kind: 'Eviction', group: 'policy', version: 'v1', verbs: ['create'] },
    finalize: { name: 'finalize', kind, group, version, verbs: ['update'] },
    exec: { name: 'exec', kind: `${kind}ExecOptions`, group, version, verbs: ['create', 'get'] },
    attach: { name: 'attach', kind: 'PodAttachOptions', group, version, verbs: ['create', 'get'] },
    portforward: { name: 'portforward', kind: 'PodPortForwardOptions', group, version, verbs: ['create', 'get'] },
    ephemeralcontainers: { name: 'ephemeralcontainers', kind, group, version, verbs: ['get', 'patch', 'update'] },
  }
  return subresourcesOf(resource).flatMap((name) => known[name] ?? [])
}
