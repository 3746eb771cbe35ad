import { connect } from 'node:http2'
import { expect, it } from 'vitest'
import { createGrpcServer } from '../../../services/enforcer/grpc/server.ts'
import { CHECKS_IN_FLIGHT_MAX } from '../../../services/enforcer/run-check.ts'

it('a gRPC connection may have only so many calls at once, however few of them send their message', async () => {
  // Nothing is asked of it, so that it needs nothing to decide by.
  const server = createGrpcServer({ tls: null } as never)
  const port = await server.listen('127.0.0.1', 0)
  const session = connect(`http://127.0.0.1:${port}`)
  try {
    const settings = await new Promise((resolve) => session.once('remoteSettings', resolve))
    expect(settings).toMatchObject({ maxConcurrentStreams: CHECKS_IN_FLIGHT_MAX })
  } finally {
    session.destroy()
    await server.drain(1_000)
  }
})
