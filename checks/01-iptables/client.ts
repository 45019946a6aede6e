/** The Pod that the learner of this lab sends from. */
export const CLIENT_MANIFEST = 'labs/01-iptables/manifests/client.yaml'
