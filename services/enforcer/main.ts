import { readEnvOrExit } from '../../shared/runtime/env.ts'
import { createLifecycle, runService } from '../../shared/runtime/lifecycle.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { enforcerEnv } from './config.ts'
import { serveEnforcer } from './serve.ts'

const config = readEnvOrExit(enforcerEnv, process.env)
const log = createLogger({ service: 'enforcer', region: config.REGION, level: config.LOG_LEVEL })
const life = createLifecycle({ log, deadlineMs: config.SHUTDOWN_DEADLINE_MS })

await runService(life, log, () => serveEnforcer({ config, log, life }))
