import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { connect, nkeyAuthenticator } from 'nats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localNatsConfig } from '../../../services/cli/deployment/nats-config.ts'
import { writeKeys } from '../../../services/cli/keys/write-keys.ts'
import { STATE_SUBJECTS, stateSubject } from '../../../shared/protocol/subjects.ts'
import { type Certificates, makeCertificates } from '../../support/certificates.ts'
import { freePorts } from '../../support/free-ports.ts'
import { startNats } from '../../support/nats-server.ts'
import { startServer } from '../../support/server-process.ts'

const run = promisify(execFile)

let folder: string
let files: readonly string[]
let regions: readonly string[]
let strangers: Certificates
beforeAll(async () => {
  strangers = await makeCertificates(['nats'])
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-nats-'))
  files = await readdir('deploy/nats')
  regions = files.map((file) => file.replace(/\.conf$/, ''))
  const hosts = new Map(regions.map((region) => [region, ['127.0.0.1']]))
  await writeKeys(join(folder, 'keys'), regions, hosts)
})
afterAll(async () => {
  await strangers?.remove()
  await rm(folder, { recursive: true, force: true })
})

describe('deploy/nats', () => {
  it('is what a NATS server takes, with the keys that keys create writes', async () => {
    expect(regions).toHaveLength(3)
    for (const file of files) {
      const text = await readFile(join('deploy/nats', file), 'utf8')
      await writeFile(join(folder, file), text.replaceAll('/etc/nats/keys', join(folder, 'keys')))
      const { stderr } = await run('nats-server', ['-t', '-c', join(folder, file)])
      expect(stderr).toContain('configuration file')
      expect(stderr).toContain('is valid')
    }
  })

  it('joins the servers of the regions, and none without the password, a name and a certificate of the plane', async () => {
    const numbers = await freePorts(6)
    const [us = '', eu = ''] = regions
    const ports = new Map(
      regions.map((region, i) => {
        const [client = 0, gateway = 0] = numbers.slice(2 * i)
        // Any free port will do for the monitor, which nobody asks.
        return [region, { client, gateway, monitor: -1 }] as const
      }),
    )
    const start = async (region: string) => {
      const file = join('deploy/nats', `${region}.conf`)
      const config = localNatsConfig(await readFile(file, 'utf8'), {
        ...{ region, ports, file },
        keys: join(folder, 'keys'),
      })
      await writeFile(join(folder, `${region}.conf`), config)
      return await startServer('nats-server', ['-c', join(folder, `${region}.conf`)], 'is ready')
    }
    const servers = await Promise.all([start(us), start(eu)])
    const gateway = ports.get(us)?.gateway
    const into = `gateways: [{ name: ${us}, url: "nats://127.0.0.1:${gateway}" }]`
    const secret = await readFile(join(folder, 'keys/nats-gateway.conf'), 'utf8')
    const own = (file: string): string => join(folder, 'keys', file)
    const tls = (cert: string, key: string): string =>
      `tls { cert_file: "${cert}", key_file: "${key}", ca_file: "${own('gateways.crt')}", verify: true }`
    const away = regions[2] ?? ''
    const ofPlane = tls(own(`gateway-${away}.crt`), own(`gateway-${away}.key`))
    const strange = tls(join(strangers.folder, 'nats.crt'), join(strangers.folder, 'nats.key'))
    const listening = (await freePorts(4)).map((port) => `listen: "127.0.0.1:${port}"`)
    const intruders = await Promise.all(
      [
        // By the name of a region that is away, without the password; and with it, by a name that is no region's.
        `name: ${away}\n ${ofPlane}`,
        `name: stranger\n ${secret}\n ${ofPlane}`,
        // With name and password, but no certificate, or one of another authority.
        `name: ${away}\n ${secret}`,
        `name: ${away}\n ${secret}\n ${strange}`,
      ].map((who, index) => startNats(`gateway {\n ${who}\n ${listening[index]}\n ${into}\n}`)),
    )
    const seed = await readFile(join(folder, 'keys/nats-admin.seed'), 'utf8')
    const authenticator = nkeyAuthenticator(new TextEncoder().encode(seed.trim()))
    const listener = await connect({ port: ports.get(us)?.client ?? 0, authenticator })
    const heard: string[] = []
    listener.subscribe(STATE_SUBJECTS, {
      callback: (_, { subject }) => {
        heard.push(subject)
      },
    })
    await listener.flush()
    const clients = await Promise.all(intruders.map(({ port }) => connect({ port })))
    const region = await connect({
      port: ports.get(eu)?.client ?? 0,
      authenticator: nkeyAuthenticator(
        new TextEncoder().encode(
          (await readFile(join(folder, `keys/nats-${eu}.seed`), 'utf8')).trim(),
        ),
      ),
    })
    const refusals = /authentication error|authorization violation|rejecting connection/gi
    await expect.poll(() => servers[0]?.log().match(refusals)?.length ?? 0).toBeGreaterThan(1)
    const unproven = "TLS gateway handshake error: tls: client didn't provide a certificate"
    await expect.poll(() => servers[0]?.log() ?? '', { timeout: 5_000 }).toContain(unproven)
    // What the region's own server is told arrives, and what the others are told did not before it.
    await expect
      .poll(() => {
        for (const client of clients) client.publish(stateSubject(us), 'forged')
        region.publish(stateSubject(eu), 'own')
        return heard
      })
      .toContain(stateSubject(eu))
    await Promise.all(clients.map((client) => client.flush()))
    expect(heard).not.toContain(stateSubject(us))
    const joined = servers[0]?.log().matchAll(/Inbound gateway connection from "([^"]+)"/g) ?? []
    expect(new Set([...joined].map(([, name]) => name))).toEqual(new Set([eu]))
    await Promise.all([listener, region, ...clients].map((client) => client.close()))
    await Promise.all(intruders.map((server) => server.stop()))
    await Promise.all(servers.map((server) => server.stop()))
  })
})
