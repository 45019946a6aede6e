// The used parts of @kubernetes/client-node, so that a bundle contains only these of its 800 modules (scripts/start.mjs).

export {
  ApiException,
  AppsV1Api,
  CoreV1Api,
  CustomObjectsApi,
  createConfiguration,
  DiscoveryV1Api,
  Exec,
  HttpMethod,
  IsomorphicFetchHttpLibrary,
  KubeConfig,
  KubernetesObjectApi,
  PatchStrategy,
  RequestContext,
  ResponseContext,
  ServerConfiguration,
  setHeaderOptions,
  Watch,
  wrapHttpLibrary,
} from '@kubernetes/client-node'
