import { type Agent, request } from 'node:https'
import type { TestCluster } from './test-cluster.ts'

export interface Answer {
  code: number
  type: string
  headers: Record<string, string | string[] | undefined>
  text: string
  json: Body
}

/** What the tests look at in an answer. */
export interface Body {
  kind?: string
  apiVersion?: string
  code?: number
  reason?: string
  message?: string
  metadata?: {
    name?: string
    resourceVersion?: string
    continue?: string
    remainingItemCount?: number
    uid?: string
  }
  items?: Body[]
  columnDefinitions?: { name: string; priority: number }[]
  rows?: { cells: unknown[]; object?: Body }[]
  spec?: Record<string, unknown>
  status?: unknown
  details?: { causes?: { field?: string; reason?: string }[] }
  [field: string]: unknown
}

export interface RequestOptions {
  method?: string
  headers?: Record<string, string>
  body?: unknown
  /** Lines of a stream, as they come; return true to end it. */
  onLine?: (line: string) => boolean
  /** Keeps connections for further requests; default: each request has its own. */
  agent?: Agent
}

/** One request to the API of a test cluster, below any client library. */
export function send(
  cluster: TestCluster,
  path: string,
  options: RequestOptions = {},
): Promise<Answer> {
  const { method = 'GET', headers = {}, body, onLine, agent = false } = options
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(text ?? '')
  const length = bytes.length > 0 ? { 'content-length': String(bytes.length) } : {}
  return new Promise((resolve, reject) => {
    const call = request(
      cluster.url + path,
      {
        method,
        ca: cluster.ca,
        agent,
        headers: {
          authorization: `Bearer ${cluster.token}`,
          'content-type': 'application/json',
          ...length,
          ...headers,
        },
      },
      (response) => {
        let text = ''
        const done = (): void => {
          const type = response.headers['content-type'] ?? ''
          const json = type.includes('json') && !onLine && text !== '' ? JSON.parse(text) : {}
          resolve({ code: response.statusCode ?? 0, type, headers: response.headers, text, json })
        }
        let seen = 0
        response.on('data', (chunk) => {
          text += chunk
          const lines = text.split('\n')
          for (; seen < lines.length - 1; seen++) {
            if (onLine?.(lines[seen] ?? '')) {
              response.destroy()
              done()
              return
            }
          }
        })
        response.on('end', done)
        response.on('error', reject)
      },
    )
    call.on('error', reject)
    call.end(bytes)
  })
}
