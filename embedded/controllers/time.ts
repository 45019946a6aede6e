/** The instant as the API stores it: RFC 3339, UTC, whole seconds (metav1.Time). */
export function timestamp(milliseconds = Date.now()): string {
  return `${new Date(milliseconds).toISOString().slice(0, 19)}Z`
}
