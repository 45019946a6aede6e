/** The parts of an image reference. */
export interface ImageReference {
  /** With its registry's host, if it names one. */
  repository: string
  tag?: string
  /** Such as `sha256:…`. */
  digest?: string
}

/**
 * Parses a reference such as `localhost:5000/web:1.27@sha256:…`. A colon before the last slash
 * belongs to a port, and an empty tag is none. (The grammar of github.com/distribution/reference.)
 * Never fails: what has no tag is a repository.
 */
export function parseImageReference(reference: string): ImageReference {
  const at = reference.indexOf('@')
  const bare = at < 0 ? reference : reference.slice(0, at)
  const digest = at < 0 ? undefined : reference.slice(at + 1)
  const colon = bare.lastIndexOf(':')
  if (colon <= bare.lastIndexOf('/')) return { repository: bare, digest }
  return { repository: bare.slice(0, colon), tag: bare.slice(colon + 1) || undefined, digest }
}
