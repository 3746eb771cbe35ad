import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface TestServer {
  readonly url: string
  /** Requests so far: method, path and body. */
  readonly seen: { readonly method: string; readonly path: string; readonly body: string }[]
  close(): Promise<void>
}

/** A server on a free port of loopback; `answer` is called with the number of the request, from 1. */
export async function serve(
  answer: (turn: number, res: ServerResponse, req: IncomingMessage) => void,
): Promise<TestServer> {
  const seen: TestServer['seen'] = []
  const server: Server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      seen.push({ method: req.method ?? '', path: req.url ?? '', body })
      answer(seen.length, res, req)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
