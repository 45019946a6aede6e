import type { StatusCause } from './status-error.ts'

/** Collects the faults of one object in the words of Kubernetes' field errors. */
export class FieldErrors {
  readonly causes: StatusCause[] = []

  invalid(field: string, value: unknown, detail: string): void {
    this.add('FieldValueInvalid', field, `Invalid value: ${shown(value)}: ${detail}`)
  }

  required(field: string, detail?: string): void {
    this.add('FieldValueRequired', field, detail ? `Required value: ${detail}` : 'Required value')
  }

  notSupported(field: string, value: unknown, supported: readonly string[]): void {
    const choices = [...supported].sort().map((choice) => JSON.stringify(choice))
    this.add(
      'FieldValueNotSupported',
      field,
      `Unsupported value: ${shown(value)}: supported values: ${choices.join(', ')}`,
    )
  }

  duplicate(field: string, value: unknown): void {
    this.add('FieldValueDuplicate', field, `Duplicate value: ${shown(value)}`)
  }

  /** A reference to something that isn't there. */
  notFound(field: string, value: unknown): void {
    this.add('FieldValueNotFound', field, `Not found: ${shown(value)}`)
  }

  forbidden(field: string, detail: string): void {
    this.add('FieldValueForbidden', field, `Forbidden: ${detail}`)
  }

  tooLong(field: string, limit: number): void {
    this.add('FieldValueTooLong', field, `Too long: may not be more than ${limit} bytes`)
  }

  private add(reason: string, field: string, message: string): void {
    this.causes.push({ reason, message, field })
  }
}

function shown(value: unknown): string {
  return value === undefined ? 'null' : JSON.stringify(value)
}
