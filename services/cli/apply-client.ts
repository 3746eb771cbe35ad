import { type ApplyReply, applyReplySchema } from '../../shared/protocol/apply.ts'
import { type Plan, planSchema } from '../../shared/protocol/plan.ts'
import type { Labels } from '../../shared/protocol/policy-labels.ts'
import { type AdminClient, AdminRefusal, describeField, parseReply } from './admin-client.ts'
import { CliError } from './errors.ts'
import type { Filed, FiledDocuments } from './policy-files.ts'

export interface ApplyOptions {
  readonly client: AdminClient
  readonly documents: FiledDocuments
  readonly prune?: { readonly labels: Labels }
}

/** Ten thousand policies take admin a second or two; this leaves it room on a busy day. */
const APPLY_TIMEOUT_MS = 60_000

/** Brings policies and domains to what files say; a refusal names file, line and field, and nothing is applied then. */
export async function applyFiles(options: ApplyOptions): Promise<ApplyReply> {
  return parseReply(applyReplySchema, await send(options, '/v1/apply'))
}

/** What `applyFiles` would do. */
export async function planFiles(options: ApplyOptions): Promise<Plan> {
  return parseReply(planSchema, await send(options, '/v1/apply?dryRun=true'))
}

async function send({ client, documents, prune }: ApplyOptions, path: string): Promise<unknown> {
  const body = {
    documents: documents.policies.map(({ document }) => document),
    ...(documents.domains.length > 0 && {
      domains: documents.domains.map(({ document }) => document),
    }),
    ...(prune !== undefined && { prune }),
  }
  const request = { method: 'POST', path, body, timeoutMs: APPLY_TIMEOUT_MS } as const
  const answer = await client.call(request).catch((err: unknown) => {
    throw err instanceof AdminRefusal ? located(err, documents) : err
  })
  return answer.body
}

/** Says where in the files the refused fields stand. */
function located(refusal: AdminRefusal, { policies, domains }: FiledDocuments): CliError {
  const errors = refusal.problem.errors ?? []
  if (errors.length === 0) return refusal
  const lines = errors.map((error) => {
    const [, list, index, field = ''] =
      /^(documents|domains)\[(\d+)\]\.(.*)$/.exec(error.field) ?? []
    const filed: readonly Filed<unknown>[] = list === 'domains' ? domains : policies
    const one = filed[Number(index)]
    if (one === undefined) return describeField(error)
    return `${one.locate(field)}: ${describeField({ ...error, field })}`
  })
  return new CliError([...lines, 'Nothing was applied.'].join('\n'), refusal.exitCode)
}
