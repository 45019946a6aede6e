/** How one request ended. */
export interface Answer {
  url: string
  /** HTTP status, 0 without an answer. */
  status: number
  /** What curl ended with. */
  exitCode: number
}

const PATIENCE_SECONDS = 2
const MEANINGS: Record<number, string> = {
  6: 'the name is not known',
  7: 'connection refused',
  28: `no answer within ${PATIENCE_SECONDS} s`,
  35: 'the connection broke off',
  52: 'an empty answer',
  56: 'the connection broke off',
}

/** Shell text: all requests at once, each on a connection of its own; prints a `#request` line for each. */
export function requestScript(urls: readonly string[], option = ''): string {
  const curl = `curl -s -o /dev/null --max-time ${PATIENCE_SECONDS}${option && ` ${option}`}`
  const lines = urls.map((url) => `${curl} -w '#request %{exitcode} %{http_code} ${url}\\n' '${url}' &`)
  return [...lines, 'wait'].join('\n')
}

/** The `#request` lines of an output. */
export function parseAnswers(stdout: string): Answer[] {
  return [...stdout.matchAll(/^#request (\d+) (\d+) (\S+)$/gm)].map(([, exitCode, status, url = '']) => ({
    url,
    status: Number(status),
    exitCode: Number(exitCode),
  }))
}

export const isGood = ({ status }: Answer): boolean => status >= 200 && status < 400

/** What became of a request, in words. */
export function describeAnswer({ status, exitCode }: Answer): string {
  return status > 0 ? `status ${status}` : (MEANINGS[exitCode] ?? `curl ended with ${exitCode}`)
}
