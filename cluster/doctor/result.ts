/**
 * How bad a result is: `fault` prevents something from running, `warning` may, `fine` and `note`
 * are information.
 */
export type Severity = 'fine' | 'note' | 'warning' | 'fault'

/** The result of one check, and the command or step that fixes it. */
export interface DoctorResult {
  what: string
  severity: Severity
  detail: string
  fix?: string
}

const rated =
  (severity: Severity) =>
  (what: string, detail: string, fix?: string): DoctorResult => ({
    what,
    severity,
    detail,
    ...(fix && { fix }),
  })

export const fine = rated('fine')
export const note = rated('note')
export const warning = rated('warning')
export const fault = rated('fault')
