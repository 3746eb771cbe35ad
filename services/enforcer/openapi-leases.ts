import { TOKENS_MAX } from '../../shared/core/units.ts'
import {
  LEASE_PATH,
  LEASE_REFUSALS,
  LEASE_RETURN_PATH,
} from '../../shared/protocol/lease-messages.ts'

const json = (schema: object) => ({ content: { 'application/json': { schema } } })
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })

const PROPERTIES = {
  domain: { type: 'string', minLength: 1, maxLength: 256 },
  descriptors: { type: 'array', items: ref('Descriptor'), minItems: 1, maxItems: 1 },
  tokens: { type: 'integer', minimum: 1, maximum: TOKENS_MAX },
}

const body = (more: Readonly<Record<string, object>>) => ({
  required: true,
  ...json({
    type: 'object',
    required: [...Object.keys(PROPERTIES), ...Object.keys(more)],
    additionalProperties: false,
    properties: { ...PROPERTIES, ...more },
  }),
})

const ANSWER = {
  type: 'object',
  required: ['region', 'revision', 'tokens'],
  properties: {
    region: { type: 'string' },
    revision: { type: 'integer' },
    tokens: { type: 'integer', description: '0: there is no block, and `reason` says why.' },
    reason: { enum: LEASE_REFUSALS },
    id: { type: 'string' },
    lifeMs: {
      type: 'number',
      description:
        'How long the tokens may be spent, counted from the instant at which the request was sent.',
    },
    decision: ref('Decision'),
  },
}

/** The routes by which clients take blocks of tokens and give back what is left; `common` is what all routes answer. */
export function leasePaths(common: {
  readonly security: readonly object[]
  readonly responses: Readonly<Record<number, object>>
}) {
  const { security, responses } = common
  return {
    [LEASE_PATH]: {
      post: {
        summary: 'Take a block of tokens of one descriptor, to spend without asking',
        security,
        requestBody: body({}),
        responses: {
          200: { description: 'A block, or why there is none.', ...json(ANSWER) },
          ...responses,
        },
      },
    },
    [LEASE_RETURN_PATH]: {
      post: {
        summary: 'Give back what is left of a block; counts once, and not after its life',
        security,
        requestBody: body({
          id: { type: 'string', pattern: '^[0-9a-f-]{36}\\.[A-Za-z0-9_-]{16}$' },
        }),
        responses: {
          200: {
            description: '`unmatched`: the descriptor no longer leads to the counter of the block.',
            ...json({
              type: 'object',
              required: ['outcome'],
              properties: { outcome: { enum: ['returned', 'unmatched'] } },
            }),
          },
          ...responses,
        },
      },
    },
  }
}
