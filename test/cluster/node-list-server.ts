import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An API server that knows one thing: the list of nodes. */
export class NodeListServer {
  readonly #server: Server

  /** @param items the nodes to list, or undefined where it shall not respond */
  constructor(items: () => unknown[] | undefined) {
    this.#server = createServer((request, response) => {
      const nodes = items()
      if (!nodes) return request.socket.destroy()
      response.setHeader('content-type', 'application/json')
      response.end(
        JSON.stringify({ apiVersion: 'v1', kind: 'NodeList', metadata: {}, items: nodes }),
      )
    })
  }

  /** Listens, and returns a kubeconfig that leads there. */
  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    const { port } = this.#server.address() as AddressInfo
    const cluster = { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true }
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'fake', cluster }],
      users: [{ name: 'fake', user: {} }],
      contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'fake' } }],
      'current-context': 'fake',
    })
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
