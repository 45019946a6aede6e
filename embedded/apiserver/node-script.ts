import type { ApiCall } from './api-call.ts'
import { sendObject } from './reply.ts'
import { readBody } from './request-body.ts'

/**
 * POST of `nodes/NAME/script`: runs the body, a shell script, on the node and answers `{exitCode, stdout, stderr}` when it has
 * ended. Unlike `exec` it needs neither a connection nor a shell of its own.
 */
export async function serveNodeScript({ backend, request, response, name = '' }: ApiCall): Promise<void> {
  const text = (await readBody(request)).toString()
  sendObject(response, 200, await backend.script(name, text))
}

/** GET of `nodes/NAME/synced`: answers when the node's kube-proxy has nothing left to program. */
export async function serveNodeSynced({ backend, response, name = '' }: ApiCall): Promise<void> {
  await backend.synced(name)
  sendObject(response, 200, {})
}
