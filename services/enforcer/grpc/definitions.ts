import { join } from 'node:path'
import {
  type AnyDefinition,
  loadSync,
  type Options,
  type ServiceDefinition,
} from '@grpc/proto-loader'
import { RLS_SERVICE } from '../../../shared/protocol/rls-messages.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'

const PROTO_FOLDER = join(PACKAGE_ROOT, 'shared', 'protocol', 'proto')

/** The form of messages that shared/protocol/rls-messages.ts describes. */
const OPTIONS: Options = {
  keepCase: true,
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
  includeDirs: [PROTO_FOLDER],
}

/** Envoy's rate limit service. */
export function loadRlsService(): ServiceDefinition {
  const loaded = loadSync('envoy/service/ratelimit/v3/rls.proto', OPTIONS)[RLS_SERVICE]
  if (!isService(loaded)) throw new Error(`rls.proto does not define ${RLS_SERVICE}`)
  return loaded
}

/** Messages have a `format`; methods of a service are named like anything. */
function isService(loaded: AnyDefinition | undefined): loaded is ServiceDefinition {
  return loaded !== undefined && typeof loaded['format'] !== 'string'
}
