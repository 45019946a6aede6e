import { Agent, request } from 'node:https'
import type { ExecResult } from '../driver.ts'
import type { ExecEndpoint } from './node-exec.ts'

/** Connections to the API server that stay open between two scripts, but keep no process from ending. */
const agent = new Agent({ keepAlive: true })

/** Runs a shell script through the API server's `nodes/NAME/script`. Rejects when the node can't be reached or time is up. */
export function scriptOnNode(
  { port, token, ca }: ExecEndpoint,
  node: string,
  text: string,
  timeoutMs: number,
): Promise<ExecResult> {
  return new Promise((resolve, reject) => {
    const path = `/api/v1/nodes/${encodeURIComponent(node)}/script`
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/plain' }
    const call = request({ host: '127.0.0.1', port, path, method: 'POST', ca, headers, agent }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        clearTimeout(timer)
        const body = Buffer.concat(chunks).toString()
        if (response.statusCode === 200) resolve(JSON.parse(body) as ExecResult)
        else reject(new Error(`the API server refused to run a script on "${node}" (HTTP ${response.statusCode})`))
      })
    })
    const timer = setTimeout(
      () => call.destroy(new Error(`a script on ${node} did not end within ${timeoutMs / 1000} s`)),
      timeoutMs,
    )
    call.on('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
    call.end(text)
  })
}
