// How lists and maps of the API merge, by `Type.field`: the patch keys of strategic merge patches and the list and map
// types of server-side apply (the `patchMergeKey` and `listMapKey` tags of the API types).

/** Keys by which strategic merge patches match items of a list; lists not named here are replaced whole. */
export const patchKeys: Readonly<Record<string, string>> = {
  'V1ObjectMeta.ownerReferences': 'uid',
  'V1PodSpec.containers': 'name',
  'V1PodSpec.initContainers': 'name',
  'V1PodSpec.ephemeralContainers': 'name',
  'V1PodSpec.volumes': 'name',
  'V1PodSpec.imagePullSecrets': 'name',
  'V1PodSpec.hostAliases': 'ip',
  'V1PodSpec.topologySpreadConstraints': 'topologyKey',
  'V1PodSpec.schedulingGates': 'name',
  'V1PodSpec.resourceClaims': 'name',
  'V1Container.ports': 'containerPort',
  'V1Container.env': 'name',
  'V1Container.volumeMounts': 'mountPath',
  'V1Container.volumeDevices': 'devicePath',
  'V1EphemeralContainer.env': 'name',
  'V1EphemeralContainer.volumeMounts': 'mountPath',
  'V1PodStatus.conditions': 'type',
  'V1PodStatus.podIPs': 'ip',
  'V1PodStatus.hostIPs': 'ip',
  'V1NodeStatus.conditions': 'type',
  'V1NodeStatus.addresses': 'type',
  'V1NamespaceStatus.conditions': 'type',
  'V1ServiceSpec.ports': 'port',
  'V1ServiceStatus.conditions': 'type',
  'V1ServiceAccount.secrets': 'name',
  'V1DeploymentStatus.conditions': 'type',
  'V1ReplicaSetStatus.conditions': 'type',
  'V1DaemonSetStatus.conditions': 'type',
  'V1JobStatus.conditions': 'type',
}

/** Lists of plain values that merge as sets, in patches as in server-side apply. */
export const sets: ReadonlySet<string> = new Set(['V1ObjectMeta.finalizers', 'V1NodeSpec.podCIDRs'])

/** Keys of list items in server-side apply where they differ from the patch key. */
const applyKeysApart: Readonly<Record<string, readonly string[]>> = {
  'V1Container.ports': ['containerPort', 'protocol'],
  'V1ServiceSpec.ports': ['port', 'protocol'],
  'V1PodSpec.topologySpreadConstraints': ['topologyKey', 'whenUnsatisfiable'],
}

/** Keys of the items of a list in server-side apply; undefined for lists owned as a whole. */
export function applyKeys(field: string): readonly string[] | undefined {
  const key = patchKeys[field]
  return applyKeysApart[field] ?? (key === undefined ? undefined : [key])
}

/** Objects and maps that server-side apply owns as a whole. */
const atomicTypes = new Set([
  'V1LabelSelector',
  'V1ObjectReference',
  'V1LocalObjectReference',
  'V1SecretKeySelector',
  'V1ConfigMapKeySelector',
  'V1ObjectFieldSelector',
  'V1ResourceFieldSelector',
  'V1OwnerReference',
  'V1NodeSelector',
  'V1NodeSelectorTerm',
])
const atomicFields = new Set(['V1ServiceSpec.selector', 'V1PodSpec.nodeSelector'])

export function isAtomic(field: string, typeName: string | undefined): boolean {
  return atomicFields.has(field) || (typeName !== undefined && atomicTypes.has(typeName))
}
