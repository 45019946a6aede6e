// The used parts of @kubernetes/client-node, so that a bundle contains only these of its 800
// modules (scripts/start.mjs). It is imported where it is needed: loading it takes a fifth of the
// time of a command that needs no API server.

export {
  ApiException,
  AppsV1Api,
  CoreV1Api,
  createConfiguration,
  Exec,
  HttpMethod,
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
