import { request as httpsRequest } from 'node:https'
import type { ResponseContext as Answer, HttpLibrary, RequestContext } from '@kubernetes/client-node'
import { timeoutScale } from '../host/wait.ts'
import { ResponseContext, wrapHttpLibrary } from './kubernetes.ts'

/** The largest list that a class's cluster answers with has some megabytes. */
const ANSWER_BYTES = 16 * 2 ** 20
const REQUEST_MS = 30_000

/**
 * HTTPS for an API server that is a stranger's: an answer has a limit of size and time, is not unpacked, and leads nowhere else (the
 * client's own library follows redirects, with our certificate, to any host that this machine reaches).
 */
export const boundedHttp = (): HttpLibrary => wrapHttpLibrary({ send })

function send(context: RequestContext): Promise<Answer> {
  const body = context.getBody()
  const agent = context.getAgent()
  return new Promise((resolve, reject) => {
    const request = httpsRequest(context.getUrl(), {
      method: context.getHttpMethod(),
      headers: context.getHeaders(),
      ...(agent ? { agent } : {}),
    })
    const stop = (why: string) => request.destroy(new Error(why))
    const timer = setTimeout(() => stop('the API server did not answer in time'), REQUEST_MS * timeoutScale())
    request.on('error', reject)
    request.on('close', () => clearTimeout(timer))
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      let size = 0
      response.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > ANSWER_BYTES) stop(`the API server answered with more than ${ANSWER_BYTES / 2 ** 20} MiB`)
        else chunks.push(chunk)
      })
      response.on('error', reject)
      response.on('end', () => {
        const bytes = Buffer.concat(chunks)
        const headers = Object.entries(response.headers).map(([name, value]) => [name, String(value)])
        const content = { text: async () => bytes.toString('utf8'), binary: async () => bytes }
        resolve(new ResponseContext(response.statusCode ?? 0, Object.fromEntries(headers), content))
      })
    })
    request.end(typeof body === 'string' ? body : undefined)
  })
}
