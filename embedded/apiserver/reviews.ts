// What the API server answers to questions of a client about itself: `kubectl auth whoami` and
// `kubectl auth can-i`.

import type { JsonObject } from './json.ts'
import { apiVersionOf, type ReviewTarget } from './resource.ts'

/**
 * The user of the kubeconfig, as kubeadm names its administrator; members of system:masters may do
 * everything.
 */
const user = { username: 'kubernetes-admin', groups: ['system:masters', 'system:authenticated'] }

const everything = ['*']

/** The status of each kind of review. */
const statuses: Readonly<Record<string, JsonObject>> = {
  SelfSubjectReview: { userInfo: user },
  SelfSubjectAccessReview: { allowed: true },
  SelfSubjectRulesReview: {
    resourceRules: [{ verbs: everything, apiGroups: everything, resources: everything }],
    nonResourceRules: [{ verbs: everything, nonResourceURLs: everything }],
    incomplete: false,
  },
}

/**
 * The answer to a review that a client posted: its own `spec`, and that the user may do everything.
 */
export function reviewOf({ resource }: ReviewTarget, { spec }: JsonObject): JsonObject {
  return {
    kind: resource.kind,
    apiVersion: apiVersionOf(resource),
    metadata: { creationTimestamp: null },
    ...(spec !== undefined && { spec }),
    status: statuses[resource.kind] ?? {},
  }
}
