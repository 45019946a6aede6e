/** The HTTP status codes of the reasons of meta/v1. */
const codes = {
  BadRequest: 400,
  Unauthorized: 401,
  Forbidden: 403,
  NotFound: 404,
  MethodNotAllowed: 405,
  NotAcceptable: 406,
  AlreadyExists: 409,
  Conflict: 409,
  Expired: 410,
  RequestEntityTooLarge: 413,
  UnsupportedMediaType: 415,
  Invalid: 422,
  InternalError: 500,
}

type Reason = keyof typeof codes

export interface StatusCause {
  reason: string
  message: string
  field: string
}

interface StatusDetails {
  name?: string
  group?: string
  kind?: string
  causes?: Partial<StatusCause>[]
}

/** An API error as a meta/v1 Status. */
export class StatusError extends Error {
  readonly reason: Reason
  readonly details: StatusDetails

  constructor(reason: Reason, message: string, details: StatusDetails = {}) {
    super(message)
    this.name = 'StatusError'
    this.reason = reason
    this.details = details
  }

  get code(): number {
    return codes[this.reason]
  }

  /** The body of an answer. */
  get status(): object {
    const { message, reason, details, code } = this
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      details,
      code,
    }
  }
}

/** What errors say of a resource. */
interface Named {
  name: string
  group: string
  kind: string
}

const detailsOf = ({ name: kind, group }: Named, name: string): StatusDetails => ({
  name,
  ...(group && { group }),
  kind,
})

/** An error that concerns one object. */
function about(reason: Reason, write: (object: string, why?: string) => string) {
  return (resource: Named, name: string, why?: string): StatusError => {
    const qualified = resource.group ? `${resource.name}.${resource.group}` : resource.name
    return new StatusError(reason, write(`${qualified} "${name}"`, why), detailsOf(resource, name))
  }
}

const modified =
  'the object has been modified; please apply your changes to the latest version and try again'

export const notFound = about('NotFound', (object) => `${object} not found`)
export const alreadyExists = about('AlreadyExists', (object) => `${object} already exists`)
export const forbidden = about('Forbidden', (object, why) => `${object} is forbidden: ${why}`)
export const conflict = about(
  'Conflict',
  (object, why = modified) => `Operation cannot be fulfilled on ${object}: ${why}`,
)

/** Every fault of an object at once, as `Kind.group "name" is invalid: [field: fault, …]`. */
export function invalid(resource: Named, name: string, causes: StatusCause[]): StatusError {
  const faults = [...new Set(causes.map((cause) => `${cause.field}: ${cause.message}`))]
  const kind = resource.group ? `${resource.kind}.${resource.group}` : resource.kind
  const message = `${kind} "${name}" is invalid: ${faults.length === 1 ? faults[0] : `[${faults.join(', ')}]`}`
  return new StatusError('Invalid', message, {
    ...detailsOf(resource, name),
    kind: resource.kind,
    causes,
  })
}

export function badRequest(message: string): StatusError {
  return new StatusError('BadRequest', message)
}

export function methodNotAllowed(): StatusError {
  return new StatusError(
    'MethodNotAllowed',
    'the server does not allow this method on the requested resource',
  )
}

export function unknownPath(): StatusError {
  return new StatusError('NotFound', 'the server could not find the requested resource')
}

/** For a kind or another part of Kubernetes that this cluster does not support. */
export function absentKind(kind: string): StatusError {
  return new StatusError(
    'NotFound',
    `the embedded cluster has no ${kind}; embedded/README.md lists what it has`,
  )
}

/** Any error as a StatusError: one of another class is internal. */
export function asStatusError(error: unknown): StatusError {
  if (error instanceof StatusError) return error
  const message = messageOf(error)
  return new StatusError('InternalError', `Internal error occurred: ${message}`, {
    causes: [{ message }],
  })
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
