import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { adminEnv } from '../../../services/admin/config.ts'
import { findProgram } from '../../../services/cli/plane/programs.ts'
import { enforcerEnv } from '../../../services/enforcer/config.ts'
import { syncEnv } from '../../../services/sync/config.ts'
import { migrationEnv } from '../../../shared/postgres/settings.ts'

/** The charts, rendered by helm. Debian has no package of it, so where it is not installed this says so and is skipped. */

const run = promisify(execFile)
const helm = findProgram('helm', process.env)
const HERE = helm === null ? ', skipped since helm is not installed here' : ''
if (helm === null)
  process.stderr.write('helm is not installed here, so deploy/helm is not rendered\n')

/** One that was built from source takes itself for a very old one. */
const KUBERNETES = ['--kube-version', '1.30.0']

const CHARTS = {
  region: [
    'region=us-east-1',
    'redis.url=redis://redis:6379',
    'redis.enforcerPassword.secret=redis-enforcer',
    'redis.syncPassword.secret=redis-sync',
    'nats.url=nats://nats:4222',
    'nats.seed.secret=nats-seed',
  ],
  control: ['nats.url=nats://nats:4222', 'database.url.secret=database', 'nats.seed.secret=seed'],
} as const

/** Each well formed, and of no use together. */
const UNUSABLE_TOGETHER: readonly (readonly [string, string, ('region' | 'control')?])[] = [
  ['enforcer.tls.clientCa=true', 'enforcer.tls.clientCa: needs enforcer.tls.secret'],
  ['sync.tls.clientCa=true', 'sync.tls.clientCa: needs sync.tls.secret'],
  ['nats.tls.clientCertificate=true', 'nats.tls.clientCertificate: needs nats.tls.secret'],
  ['redis.tls.secret=redis-tls', 'redis.url: must be rediss://'],
  ['enforcer.autoscaling.minReplicas=11', 'enforcer.autoscaling.minReplicas: must be at most'],
  ['enforcer.drainDelayMs=15000', 'enforcer.drainDelayMs: must be below shutdownDeadlineMs'],
  ['enforcer.grpcPort=8080', 'enforcer.grpcPort: must be another port'],
  ['enforcer.env.REGION=other', 'enforcer.env.REGION: is set by a value of its own'],
  ['sync.env.REDIS_PASSWORD=hunter', 'sync.env.REDIS_PASSWORD: is a secret'],
  ['admin.tls.clientCa=true', 'admin.tls.clientCa: needs admin.tls.secret', 'control'],
  [
    'admin.env.DATABASE_MIGRATION_URL=x',
    'admin.env.DATABASE_MIGRATION_URL: is a secret',
    'control',
  ],
  ['admin.oidc.issuer=https://issuer', 'admin.oidc: set issuer, audience', 'control'],
]

/** With everything that is an option. */
const EVERYTHING = {
  region: [
    'enforcer.debugToken.secret=debug',
    'redis.url=rediss://redis:6379',
    'redis.tls.secret=redis-tls',
    'redis.tls.clientCertificate=true',
    'nats.tls.secret=nats-tls',
    'nats.tls.clientCertificate=true',
    ...['enforcer', 'sync'].flatMap((part) => [
      `${part}.tls.secret=tls`,
      `${part}.tls.clientCa=true`,
    ]),
    'serviceMonitor.enabled=true',
    'networkPolicy.callers[0].podSelector.matchLabels.app=gateway',
  ],
  control: [
    'database.tls.secret=database-tls',
    'database.tls.clientCertificate=true',
    'database.migrationUrl.secret=database-owner',
    'nats.tls.secret=nats-tls',
    'admin.token.secret=token',
    'admin.tls.secret=tls',
    'admin.tls.clientCa=true',
    'admin.autoscaling.enabled=true',
    'admin.oidc.issuer=https://issuer',
    'admin.oidc.audience=quotaplane',
    'admin.oidc.jwksUrl=https://issuer/keys',
    'serviceMonitor.enabled=true',
  ],
} as const

const SCHEMAS = { enforcer: enforcerEnv, sync: syncEnv, admin: adminEnv }

const envSchema = z.array(z.strictObject({ name: z.string(), value: z.string() }))
const probeSchema = z.looseObject({
  httpGet: z.object({ path: z.string(), port: z.string(), scheme: z.string() }).optional(),
  exec: z.object({ command: z.array(z.string()) }).optional(),
})
const containerSchema = z.looseObject({
  name: z.enum(['enforcer', 'sync', 'admin']),
  args: z.array(z.string()),
  ports: z.array(z.object({ name: z.string(), containerPort: z.number() })),
  env: envSchema,
  volumeMounts: z.array(
    z.object({ name: z.string(), mountPath: z.string(), readOnly: z.literal(true) }),
  ),
  securityContext: z.object({
    allowPrivilegeEscalation: z.literal(false),
    readOnlyRootFilesystem: z.literal(true),
    capabilities: z.object({ drop: z.tuple([z.literal('ALL')]) }),
  }),
  resources: z.looseObject({ requests: z.looseObject({ cpu: z.string(), memory: z.string() }) }),
  startupProbe: probeSchema,
  livenessProbe: probeSchema,
  readinessProbe: probeSchema,
})
const jobSchema = containerSchema
  .omit({ ports: true, startupProbe: true, livenessProbe: true, readinessProbe: true })
  .extend({ name: z.literal('migrate') })
const podSchema = z.looseObject({
  automountServiceAccountToken: z.literal(false),
  securityContext: z.looseObject({ runAsNonRoot: z.literal(true) }),
  terminationGracePeriodSeconds: z.number(),
  topologySpreadConstraints: z.array(z.looseObject({ topologyKey: z.string() })).length(2),
  initContainers: z.tuple([jobSchema]).optional(),
  containers: z.tuple([containerSchema]),
  volumes: z.array(
    z.object({ name: z.string(), secret: z.looseObject({ secretName: z.string() }) }),
  ),
})

interface Part {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: Readonly<Record<string, unknown>>
}

type Chart = keyof typeof CHARTS

async function render(chart: Chart, values: readonly string[]): Promise<readonly Part[]> {
  const sets = values.flatMap((value) => ['--set', value])
  const args = ['template', 'quota', `deploy/helm/${chart}`, ...KUBERNETES, ...sets]
  const { stdout } = await run(helm ?? '', args)
  return parseAllDocuments(stdout).map((document) => document.toJS() as Part)
}

function podsOf(parts: readonly Part[]) {
  return parts
    .filter(({ kind }) => kind === 'Deployment')
    .map(
      ({ spec }) => z.object({ template: z.object({ spec: podSchema }) }).parse(spec).template.spec,
    )
}

function settingOf({ env }: z.infer<typeof containerSchema>, setting: string): string | undefined {
  return env.find((one) => one.name === setting)?.value
}

const everyWay = (Object.keys(CHARTS) as Chart[]).flatMap((chart) => [
  { chart, how: 'as it comes', values: CHARTS[chart] },
  { chart, how: 'with every option', values: [...CHARTS[chart], ...EVERYTHING[chart]] },
])

describe.skipIf(helm === null)(`deploy/helm${HERE}`, () => {
  it.each(everyWay)(
    '$chart $how is a chart that helm finds in order',
    async ({ chart, values }) => {
      const sets = values.flatMap((value) => ['--set', value])
      const { stdout } = await run(helm ?? '', [
        'lint',
        '--strict',
        `deploy/helm/${chart}`,
        ...KUBERNETES,
        ...sets,
      ])
      expect(stdout).toContain('0 chart(s) failed')
    },
  )

  it.each(everyWay)(
    '$chart $how gives each service settings that it starts with',
    async ({ chart, values }) => {
      const pods = podsOf(await render(chart, values))
      expect(pods).toHaveLength(chart === 'region' ? 2 : 1)
      for (const { containers, volumes } of pods) {
        const [{ name, args, env, volumeMounts }] = containers
        expect(args).toEqual(['node', `dist/services/${name}/main.js`])
        const schema = SCHEMAS[name]
        const settings = env.map((one) => one.name.replace(/_FILE$/, ''))
        expect(settings.filter((one) => !(one in schema.shape))).toEqual([])
        // What is a file has no content here; the others must be such as the service takes.
        const plain = env.filter((one) => !one.name.endsWith('_FILE'))
        for (const { name: setting, value } of plain) {
          const field = schema.shape[setting as keyof typeof schema.shape] as z.ZodType
          expect(field.safeParse(value).error, `${setting}=${value}`).toBeUndefined()
        }
        const required = Object.entries(schema.shape)
          .filter(([, field]) => !(field as z.ZodType).safeParse(undefined).success)
          .map(([setting]) => setting)
        expect(settings).toEqual(expect.arrayContaining(required))
        for (const { name: setting, value } of env.filter((one) => one.name.endsWith('_FILE'))) {
          const mount = volumeMounts.find(({ mountPath }) => value.startsWith(`${mountPath}/`))
          expect(
            volumes.map((volume) => volume.name),
            setting,
          ).toContain(mount?.name)
        }
      }
    },
  )

  it('migrates as the owner of the schema, whose URL the admins of the same pods do not see', async () => {
    const [plain] = podsOf(await render('control', CHARTS.control))
    expect(plain?.initContainers).toBeUndefined()
    const [pod] = podsOf(await render('control', [...CHARTS.control, ...EVERYTHING.control]))
    const [migrate] = pod?.initContainers ?? []
    expect(migrate?.args.slice(1)).toEqual(['dist/services/cli/main.js', 'admin', 'migrate'])
    const settings = migrate?.env.map(({ name }) => name.replace(/_FILE$/, '')) ?? []
    expect([...settings].sort()).toEqual(Object.keys(migrationEnv.shape).sort())
    const mounted = (of: typeof migrate) => of?.volumeMounts.map(({ mountPath }) => `${mountPath}/`)
    for (const { name, value } of migrate?.env ?? []) {
      expect(
        mounted(migrate)?.filter((path) => value.startsWith(path)),
        name,
      ).toHaveLength(1)
    }
    const known = pod?.volumes.map(({ name }) => `/secrets/${name}/`) ?? []
    expect(known).toEqual(expect.arrayContaining(mounted(migrate) ?? ['none']))
    expect(mounted(pod?.containers[0] as typeof migrate)).not.toContain('/secrets/database-owner/')
  })

  it.each(everyWay)('$chart $how asks for health where the service listens', async (way) => {
    for (const { containers } of podsOf(await render(way.chart, way.values))) {
      const [container] = containers
      const http = container.ports.find((port) => port.name === 'http')?.containerPort
      expect(String(http)).toBe(settingOf(container, `${container.name.toUpperCase()}_PORT`))
      const isPlain = way.how === 'as it comes'
      const asked = (path: string) =>
        isPlain
          ? { httpGet: { path, port: 'http', scheme: 'HTTP' } }
          : `port: ${http}, path: '${path}'`
      const told = (probe: z.infer<typeof probeSchema>) =>
        isPlain
          ? { httpGet: probe.httpGet }
          : /port: \d+, path: '\S+'/.exec(String(probe.exec?.command))?.[0]
      expect(told(container.startupProbe)).toEqual(asked('/livez'))
      expect(told(container.livenessProbe)).toEqual(asked('/livez'))
      const ready = container.name === 'sync' ? '/livez' : '/readyz'
      expect(told(container.readinessProbe)).toEqual(asked(ready))
    }
  })

  it.each(everyWay)(
    '$chart $how gives each service the time that it takes to leave',
    async (way) => {
      for (const { containers, terminationGracePeriodSeconds } of podsOf(
        await render(way.chart, way.values),
      )) {
        const deadlineMs = Number(settingOf(containers[0], 'SHUTDOWN_DEADLINE_MS'))
        expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(deadlineMs)
        expect(deadlineMs).toBeGreaterThan(Number(settingOf(containers[0], 'DRAIN_DELAY_MS') ?? 0))
      }
    },
  )

  it('has budgets, policies, autoscaling and monitors for the parts that they are for', async () => {
    const kinds = async (chart: Chart): Promise<string[]> => {
      const parts = await render(chart, [...CHARTS[chart], ...EVERYTHING[chart]])
      return parts.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort()
    }
    const common = [
      'Deployment',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'Service',
      'ServiceMonitor',
    ]
    const of = (part: string, more: string[] = []) =>
      [...common, ...more].map((kind) => `${kind} quota-${part}`)
    expect(await kinds('region')).toEqual(
      [...of('enforcer', ['HorizontalPodAutoscaler']), ...of('sync')].sort(),
    )
    expect(await kinds('control')).toEqual(of('admin', ['HorizontalPodAutoscaler']).sort())
  })

  it('lets an enforcer reach its Redis and nothing else', async () => {
    const parts = await render('region', CHARTS.region)
    const policy = parts.find(
      ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'quota-enforcer',
    )
    expect(policy?.spec['policyTypes']).toEqual(['Ingress', 'Egress'])
    expect(policy?.spec['egress']).toEqual([
      {
        ports: [
          { port: 53, protocol: 'UDP' },
          { port: 53, protocol: 'TCP' },
        ],
      },
      { ports: [{ port: 6379 }] },
    ])
  })

  it('refuses values that could not work, by their names', async () => {
    const refused = async (chart: Chart, ...more: string[]): Promise<string> => {
      try {
        await render(chart, [...CHARTS[chart], ...more])
        return 'rendered'
      } catch (err) {
        return String((err as { stderr?: string }).stderr)
      }
    }
    expect(await refused('region', 'region=')).toContain('region: name the region')
    expect(await refused('region', 'redis.url=redis://me:secret@redis')).toContain('/redis/url')
    expect(await refused('region', 'enforcer.replica=3')).toContain("'replica' not allowed")
    expect(await refused('control', 'database.url.secret=')).toContain(
      'database.url.secret: name the secret',
    )
    for (const [value, told, chart = 'region'] of UNUSABLE_TOGETHER) {
      expect(await refused(chart, ...value.split(' ')), value).toContain(told)
    }
  })

  it('takes a setting that is a secret by its name, and not as a value', async () => {
    const headers = 'enforcer.secretEnv.OTEL_EXPORTER_OTLP_HEADERS'
    const named = [...CHARTS.region, `${headers}.secret=collector`, `${headers}.key=headers`]
    const parts = await render('region', named)
    const enforcer = parts.find(({ kind, metadata }) =>
      `${kind} ${metadata.name}`.startsWith('Deployment quota-enforcer'),
    )
    const from = { secretKeyRef: { name: 'collector', key: 'headers' } }
    expect(enforcer?.spec).toMatchObject({
      template: {
        spec: {
          containers: [
            {
              env: expect.arrayContaining([
                { name: 'OTEL_EXPORTER_OTLP_HEADERS', valueFrom: from },
              ]),
            },
          ],
        },
      },
    })
  })
})
