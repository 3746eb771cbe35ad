import cluster from 'node:cluster'
import { parseArgs } from 'node:util'
import { readEnvOrExit } from '../../shared/runtime/env.ts'
import { createLifecycle, runService } from '../../shared/runtime/lifecycle.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { warnOfUnknown } from '../../shared/runtime/unknown-settings.ts'
import { enforcerEnv, workersOf } from './config.ts'
import { serveEnforcer } from './serve.ts'
import { keepWorkers, WORKER_VARIABLE } from './workers.ts'

/** What the first process may take longer to stop than its workers. */
const LATER_MS = 1_000

const { workers } = parseArgs({ options: { workers: { type: 'string' } } }).values
const given = { ...process.env, ...(workers !== undefined && { ENFORCER_WORKERS: workers }) }
const config = readEnvOrExit(enforcerEnv, given, 'ENFORCER_')
const count = cluster.isWorker ? 1 : workersOf(config)
const worker = cluster.isWorker ? (process.env[WORKER_VARIABLE] ?? '') : null
const log = createLogger({ service: 'enforcer', region: config.REGION, level: config.LOG_LEVEL })
const deadlineMs = config.SHUTDOWN_DEADLINE_MS + (count > 1 ? LATER_MS : 0)
const life = createLifecycle({ log, deadlineMs })

// A terminal sends Ctrl-C to all processes; a worker waits for the word of the first, or it would stop twice.
if (worker !== null) process.on('SIGINT', () => {})
else warnOfUnknown(given, log)
await runService(
  life,
  log,
  () =>
    count > 1
      ? keepWorkers({ count, log, life })
      : serveEnforcer({ config, environment: given, log, life, worker }),
  worker === null ? ['SIGINT', 'SIGTERM'] : ['SIGTERM'],
)
