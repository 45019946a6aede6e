import type { Resource } from './resource.ts'

export interface StatusCause {
  reason: string
  message: string
  field: string
}

export interface Status {
  kind: 'Status'
  apiVersion: 'v1'
  metadata: Record<string, never>
  status: 'Success' | 'Failure'
  message?: string
  reason?: string
  details?: {
    name?: string
    group?: string
    kind?: string
    causes?: Partial<StatusCause>[]
  }
  code?: number
}

/** An API error as a meta/v1 Status. */
export class StatusError extends Error {
  readonly status: Status
  readonly code: number
  readonly reason: string

  constructor(code: number, reason: string, message: string, details?: Status['details']) {
    super(message)
    this.name = 'StatusError'
    this.code = code
    this.reason = reason
    this.status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code }
    if (details) this.status.details = details
  }
}

/** True for a StatusError with that reason, such as `NotFound`, `AlreadyExists` or `Conflict`. */
export function hasReason(error: unknown, reason: string): error is StatusError {
  return error instanceof StatusError && error.reason === reason
}

type Named = Pick<Resource, 'name' | 'group' | 'kind'>

function qualified(resource: Named): string {
  return resource.group ? `${resource.name}.${resource.group}` : resource.name
}

function details(resource: Named, name: string): Status['details'] {
  return { name, ...(resource.group ? { group: resource.group } : {}), kind: resource.name }
}

export function notFound(resource: Named, name: string): StatusError {
  return new StatusError(404, 'NotFound', `${qualified(resource)} "${name}" not found`, details(resource, name))
}

export function alreadyExists(resource: Named, name: string): StatusError {
  const message = `${qualified(resource)} "${name}" already exists`
  return new StatusError(409, 'AlreadyExists', message, details(resource, name))
}

export function conflict(resource: Named, name: string, why?: string): StatusError {
  const reason = why ?? 'the object has been modified; please apply your changes to the latest version and try again'
  const message = `Operation cannot be fulfilled on ${qualified(resource)} "${name}": ${reason}`
  return new StatusError(409, 'Conflict', message, details(resource, name))
}

export function forbidden(resource: Named, name: string, why: string): StatusError {
  const message = `${qualified(resource)} "${name}" is forbidden: ${why}`
  return new StatusError(403, 'Forbidden', message, details(resource, name))
}

/** 422: every fault of an object at once, as `Kind.group "name" is invalid: [field: fault, …]`. */
export function invalid(resource: Named, name: string, causes: readonly StatusCause[]): StatusError {
  const faults = [...new Set(causes.map((cause) => `${cause.field}: ${cause.message}`))]
  const kind = resource.group ? `${resource.kind}.${resource.group}` : resource.kind
  const message = `${kind} "${name}" is invalid: ${faults.length === 1 ? faults[0] : `[${faults.join(', ')}]`}`
  return new StatusError(422, 'Invalid', message, {
    ...details(resource, name),
    kind: resource.kind,
    causes: [...causes],
  })
}

export function badRequest(message: string): StatusError {
  return new StatusError(400, 'BadRequest', message)
}

/** 410: the requested version is no longer in the history of the store. */
export function expired(message: string): StatusError {
  return new StatusError(410, 'Expired', message)
}

export function methodNotAllowed(): StatusError {
  return new StatusError(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource', {})
}

/** 404 for an unknown path. */
export function unknownPath(): StatusError {
  return new StatusError(404, 'NotFound', 'the server could not find the requested resource', {})
}

/** 404 for a kind or another part of Kubernetes that this cluster does not support. */
export function absentKind(kind: string): StatusError {
  const message = `the embedded cluster has no ${kind}; embedded/README.md lists what it has`
  return new StatusError(404, 'NotFound', message, {})
}

export function unauthorized(): StatusError {
  return new StatusError(401, 'Unauthorized', 'Unauthorized')
}

export function unsupportedMediaType(accepted: readonly string[]): StatusError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`
  return new StatusError(415, 'UnsupportedMediaType', message)
}

export function internalError(message: string): StatusError {
  return new StatusError(500, 'InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] })
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
