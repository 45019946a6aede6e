/**
 * Field numbers of the messages that kubectl sends (the generated.proto files of k8s.io/api and
 * k8s.io/apimachinery), by the class that describes the message, without what the server sets,
 * times and status. Fields are listed in the order of their numbers, from 1; `9=name` skips to a
 * number, `@X` is an inlined message, `!` marks numbers and booleans that are always written, for
 * which zero means absent.
 */
export const protobufFields: Readonly<Record<string, string>> = {
  LocalObjectReference: 'name',
  ProbeHandler: 'exec httpGet tcpSocket grpc',
  V1Affinity: 'nodeAffinity podAffinity podAntiAffinity',
  V1Capabilities: 'add drop',
  V1ClientIPConfig: 'timeoutSeconds',
  V1ConfigMap: 'metadata data binaryData immutable',
  V1ConfigMapEnvSource: '1=@LocalObjectReference 2=optional',
  V1ConfigMapKeySelector: '1=@LocalObjectReference 2=key optional',
  V1ConfigMapProjection: '1=@LocalObjectReference 2=items 4=optional',
  V1ConfigMapVolumeSource: '1=@LocalObjectReference 2=items defaultMode optional',
  V1Container:
    'name image command args workingDir ports env resources volumeMounts livenessProbe readinessProbe lifecycle terminationMessagePath imagePullPolicy securityContext stdin! stdinOnce! tty! envFrom terminationMessagePolicy volumeDevices startupProbe 23=resizePolicy restartPolicy',
  V1ContainerPort: 'name hostPort! containerPort! protocol hostIP',
  V1CronJob: 'metadata spec',
  V1CronJobSpec:
    'schedule startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit failedJobsHistoryLimit timeZone',
  V1DeleteOptions: 'gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun',
  V1Deployment: 'metadata spec',
  V1DeploymentSpec:
    'replicas selector template strategy minReadySeconds! revisionHistoryLimit paused! 9=progressDeadlineSeconds',
  V1DeploymentStrategy: 'type rollingUpdate',
  V1DownwardAPIProjection: 'items',
  V1DownwardAPIVolumeFile: 'path fieldRef resourceFieldRef mode',
  V1DownwardAPIVolumeSource: 'items defaultMode',
  V1EmptyDirVolumeSource: 'medium sizeLimit',
  V1EnvFromSource: 'prefix configMapRef secretRef',
  V1EnvVar: 'name value valueFrom',
  V1EnvVarSource: 'fieldRef resourceFieldRef configMapKeyRef secretKeyRef',
  V1Eviction: 'metadata deleteOptions',
  V1ExecAction: 'command',
  V1GRPCAction: 'port! service',
  V1HTTPGetAction: 'path port host scheme httpHeaders',
  V1HTTPHeader: 'name value',
  V1HostAlias: 'ip hostnames',
  V1HostPathVolumeSource: 'path type',
  V1Job: 'metadata spec',
  V1JobSpec:
    'parallelism completions activeDeadlineSeconds selector manualSelector template backoffLimit ttlSecondsAfterFinished completionMode suspend podFailurePolicy backoffLimitPerIndex maxFailedIndexes podReplacementPolicy managedBy successPolicy',
  V1JobTemplateSpec: 'metadata spec',
  V1KeyToPath: 'key path mode',
  V1LabelSelector: 'matchLabels matchExpressions',
  V1LabelSelectorRequirement: 'key operator values',
  V1Lifecycle: 'postStart preStop',
  V1LifecycleHandler: 'exec httpGet tcpSocket',
  V1LocalObjectReference: 'name',
  V1Namespace: 'metadata spec',
  V1NamespaceSpec: 'finalizers',
  V1NodeAffinity:
    'requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution',
  V1NodeSelector: 'nodeSelectorTerms',
  V1NodeSelectorRequirement: 'key operator values',
  V1NodeSelectorTerm: 'matchExpressions matchFields',
  V1NonResourceAttributes: 'path verb',
  V1ObjectFieldSelector: 'apiVersion fieldPath',
  V1ObjectMeta:
    'name generateName namespace selfLink uid resourceVersion generation! creationTimestamp deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers',
  V1OwnerReference: 'kind 3=name uid apiVersion controller blockOwnerDeletion',
  V1Pod: 'metadata spec',
  V1PodAffinity:
    'requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution',
  V1PodAffinityTerm:
    'labelSelector namespaces topologyKey 4=namespaceSelector matchLabelKeys mismatchLabelKeys',
  V1PodAntiAffinity:
    'requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution',
  V1PodDNSConfig: 'nameservers searches options',
  V1PodDNSConfigOption: 'name value',
  V1PodReadinessGate: 'conditionType',
  V1PodSecurityContext:
    'seLinuxOptions runAsUser runAsNonRoot supplementalGroups fsGroup runAsGroup sysctls windowsOptions fsGroupChangePolicy seccompProfile 11=appArmorProfile supplementalGroupsPolicy seLinuxChangePolicy',
  V1PodSpec:
    'volumes containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount nodeName hostNetwork! hostPID! hostIPC! securityContext imagePullSecrets hostname subdomain affinity schedulerName initContainers automountServiceAccountToken tolerations hostAliases priorityClassName priority dnsConfig shareProcessNamespace readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints ephemeralContainers setHostnameAsFQDN 36=os hostUsers! schedulingGates resourceClaims resources hostnameOverride',
  V1PodTemplateSpec: 'metadata spec',
  V1Preconditions: 'uid resourceVersion',
  V1PreferredSchedulingTerm: 'weight! preference',
  V1Probe:
    '1=@ProbeHandler 7=terminationGracePeriodSeconds 2=initialDelaySeconds! timeoutSeconds! periodSeconds! successThreshold! failureThreshold!',
  V1ProjectedVolumeSource: 'sources defaultMode',
  V1ResourceAttributes: 'namespace verb group version resource subresource name',
  V1ResourceFieldSelector: 'containerName resource divisor',
  V1ResourceRequirements: 'limits requests',
  V1RollingUpdateDeployment: 'maxUnavailable maxSurge',
  V1Scale: 'metadata spec',
  V1ScaleSpec: 'replicas!',
  V1SeccompProfile: 'type localhostProfile',
  V1Secret: 'metadata data type stringData immutable',
  V1SecretEnvSource: '1=@LocalObjectReference 2=optional',
  V1SecretKeySelector: '1=@LocalObjectReference 2=key optional',
  V1SecretProjection: '1=@LocalObjectReference 2=items 4=optional',
  V1SecretVolumeSource: 'secretName items defaultMode optional',
  V1SecurityContext:
    'capabilities privileged seLinuxOptions runAsUser runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation runAsGroup procMount windowsOptions seccompProfile 12=appArmorProfile',
  V1SelfSubjectAccessReview: 'metadata spec',
  V1SelfSubjectAccessReviewSpec: 'resourceAttributes nonResourceAttributes',
  V1SelfSubjectReview: 'metadata',
  V1SelfSubjectRulesReview: 'metadata spec',
  V1SelfSubjectRulesReviewSpec: 'namespace',
  V1Service: 'metadata spec',
  V1ServiceAccount: 'metadata',
  V1ServiceAccountTokenProjection: 'audience expirationSeconds path',
  V1ServicePort: 'name protocol port! targetPort nodePort! appProtocol',
  V1ServiceSpec:
    'ports selector clusterIP type externalIPs 7=sessionAffinity loadBalancerIP loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort! publishNotReadyAddresses! sessionAffinityConfig 17=ipFamilyPolicy clusterIPs ipFamilies allocateLoadBalancerNodePorts 21=loadBalancerClass internalTrafficPolicy trafficDistribution',
  V1SessionAffinityConfig: 'clientIP',
  V1TCPSocketAction: 'port host',
  V1Toleration: 'key operator value effect tolerationSeconds',
  V1TopologySpreadConstraint:
    'maxSkew! topologyKey whenUnsatisfiable labelSelector 5=minDomains nodeAffinityPolicy nodeTaintsPolicy matchLabelKeys',
  V1Volume: 'name @VolumeSource',
  V1VolumeMount:
    'name readOnly! mountPath subPath mountPropagation subPathExpr 7=recursiveReadOnly',
  V1VolumeProjection: 'secret downwardAPI configMap serviceAccountToken',
  V1WeightedPodAffinityTerm: 'weight! podAffinityTerm',
  VolumeSource:
    'hostPath emptyDir 6=secret 10=persistentVolumeClaim 16=downwardAPI 19=configMap 26=projected',
}
