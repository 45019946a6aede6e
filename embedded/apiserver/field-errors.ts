import type { StatusCause } from './status-error.ts'

/** Collects the faults of one object with the messages of Kubernetes' field errors. */
export class FieldErrors {
  readonly causes: StatusCause[] = []

  /** Adds each fault of a value. */
  invalid(field: string, value: unknown, ...faults: readonly string[]): void {
    const shown = value === undefined ? 'null' : JSON.stringify(value)
    for (const fault of faults)
      this.add('FieldValueInvalid', field, `Invalid value: ${shown}: ${fault}`)
  }

  required(field: string, detail?: string): void {
    this.add('FieldValueRequired', field, detail ? `Required value: ${detail}` : 'Required value')
  }

  /**
   * The limit is of the field's values together (`field.TooLong`, in the words of Kubernetes from
   * 1.32 on).
   */
  tooLong(field: string, limitBytes: number): void {
    const message = `Too long: may not be more than ${limitBytes} bytes`
    this.add('FieldValueTooLong', field, message)
  }

  forbidden(field: string, detail: string): void {
    this.add('FieldValueForbidden', field, `Forbidden: ${detail}`)
  }

  /** Adds a fault with Kubernetes' reason. */
  add(reason: string, field: string, message: string): void {
    this.causes.push({ reason, message, field })
  }
}

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const subdomain = String.raw`${label}(\.${label})*`
const serviceName = '[a-z]([-a-z0-9]*[a-z0-9])?'
const name = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'
const dataKey = '[-._a-zA-Z0-9]+'

/**
 * The syntax of names and labels: RFC 1123, RFC 1035 and Kubernetes' qualified names, with
 * Kubernetes' messages.
 */
const syntaxes = {
  subdomain: {
    pattern: subdomain,
    limit: 253,
    fault: `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${subdomain}')`,
  },
  label: {
    pattern: label,
    limit: 63,
    fault: `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '${label}')`,
  },
  service: {
    pattern: serviceName,
    limit: 63,
    fault: `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '${serviceName}')`,
  },
  labelValue: {
    pattern: `(${name})?`,
    limit: 63,
    fault: `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${name})?')`,
  },
  name: {
    pattern: name,
    limit: 63,
    fault: `a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${name}')`,
  },
  dataKey: {
    pattern: dataKey,
    limit: 253,
    fault: `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '${dataKey}')`,
  },
}

export type Syntax = keyof typeof syntaxes

/** The faults of a text that must have a syntax. */
export function syntaxFaults(text: string, syntax: Syntax): string[] {
  const { pattern, limit, fault } = syntaxes[syntax]
  const length = Buffer.byteLength(text) > limit ? [`must be no more than ${limit} bytes`] : []
  return new RegExp(`^(?:${pattern})$`).test(text) ? length : [...length, fault]
}

/** The faults of the key of a label or annotation: an optional DNS prefix and a name. */
export function keyFaults(key: string): string[] {
  const [name = '', prefix, ...more] = key.split('/').reverse()
  if (more.length > 0)
    return [
      `${syntaxes.name.fault} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ]
  const prefixFaults =
    prefix === '' ? ['must be non-empty'] : prefix ? syntaxFaults(prefix, 'subdomain') : []
  const nameFaults = name === '' ? ['must be non-empty'] : syntaxFaults(name, 'name')
  return [
    ...prefixFaults.map((fault) => `prefix part ${fault}`),
    ...nameFaults.map((fault) => `name part ${fault.replace('a qualified name ', '')}`),
  ]
}

/** Faults of the number of a port, or of its name (an RFC 6335 service name). */
export function portFaults(port: number | string): string[] {
  const rules: [fault: string, isBroken: boolean][] =
    typeof port === 'number'
      ? [
          [
            'must be between 1 and 65535, inclusive',
            !Number.isInteger(port) || port < 1 || port > 65535,
          ],
        ]
      : [
          ['must be no more than 15 characters', port.length > 15],
          [
            'must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)',
            !/^[-a-z0-9]+$/.test(port),
          ],
          ['must contain at least one letter (a-z)', !/[a-z]/.test(port)],
          ['must not contain consecutive hyphens', port.includes('--')],
          ['must not begin or end with a hyphen', /^-|-$/.test(port)],
        ]
  return rules.flatMap(([fault, isBroken]) => (isBroken ? [fault] : []))
}
