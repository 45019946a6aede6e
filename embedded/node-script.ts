import { Agent, request } from 'node:https'
import type { ExecResult } from '../host/shell-word.ts'
import type { ExecEndpoint } from './node-exec.ts'

/** Connections to the API server that stay open between two scripts, but keep no process from ending. */
const agent = new Agent({ keepAlive: true })

interface NodeCall {
  method: 'GET' | 'POST'
  subresource: 'script' | 'synced'
  /** For the message of a call that took too long. */
  what: string
  timeoutMs: number
  body?: string
}

/** Asks the API server for a subresource of a node. Rejects when the node can't be reached or time is up. */
function askNode({ port, token, ca }: ExecEndpoint, node: string, call: NodeCall): Promise<string> {
  const { method, subresource, what, timeoutMs, body } = call
  return new Promise((resolve, reject) => {
    const path = `/api/v1/nodes/${encodeURIComponent(node)}/${subresource}`
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/plain' }
    const asked = request({ host: '127.0.0.1', port, path, method, ca, headers, agent }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        clearTimeout(timer)
        if (response.statusCode === 200) resolve(Buffer.concat(chunks).toString())
        else reject(new Error(`the API server refused ${what} on "${node}" (HTTP ${response.statusCode})`))
      })
    })
    const timer = setTimeout(
      () => asked.destroy(new Error(`${what} on ${node} did not end within ${timeoutMs / 1000} s`)),
      timeoutMs,
    )
    asked.on('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
    asked.end(body)
  })
}

/** Runs a shell script through the API server's `nodes/NAME/script`. Rejects when the node can't be reached or time is up. */
export async function scriptOnNode(
  endpoint: ExecEndpoint,
  node: string,
  text: string,
  timeoutMs: number,
): Promise<ExecResult> {
  const call = { method: 'POST', subresource: 'script', what: 'a script', timeoutMs, body: text } as const
  return JSON.parse(await askNode(endpoint, node, call)) as ExecResult
}

/** Resolves when a node's kube-proxy has nothing left to program. Rejects when the node can't be asked or time is up. */
export async function syncedOnNode(endpoint: ExecEndpoint, node: string, timeoutMs: number): Promise<void> {
  await askNode(endpoint, node, { method: 'GET', subresource: 'synced', what: "kube-proxy's sync", timeoutMs })
}
