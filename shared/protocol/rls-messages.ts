/**
 * Messages of Envoy's rate limit service as `@grpc/proto-loader` decodes and encodes them (names kept, enums as
 * text, 64-bit integers as numbers). The files in `proto/` say the same to gRPC.
 */

export const RLS_SERVICE = 'envoy.service.ratelimit.v3.RateLimitService'

export type OverrideUnit = 'UNKNOWN' | 'SECOND' | 'MINUTE' | 'HOUR' | 'DAY' | 'MONTH' | 'YEAR'

export type RlsUnit = OverrideUnit | 'WEEK'

export type RlsCode = 'UNKNOWN' | 'OK' | 'OVER_LIMIT'

export interface RlsDescriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[]
  readonly limit: RlsOverride | null
  /** Null when unset; 0 is a value of its own. */
  readonly hits_addend: { readonly value: number } | null
}

/** `unit` is a number when the caller knows more units than this version. */
export interface RlsOverride {
  readonly requests_per_unit: number
  readonly unit: string | number
}

export interface RlsRequest {
  readonly domain: string
  readonly descriptors: readonly RlsDescriptor[]
  readonly hits_addend: number
}

export interface CurrentLimit {
  readonly requests_per_unit: number
  readonly unit: RlsUnit
  readonly name: string
}

export interface RlsStatus {
  readonly code: RlsCode
  readonly current_limit: CurrentLimit | null
  readonly limit_remaining: number
  readonly duration_until_reset: { readonly seconds: number; readonly nanos: number } | null
}

export interface RlsHeader {
  readonly key: string
  readonly value: string
}

export interface RlsResponse {
  readonly overall_code: RlsCode
  readonly statuses: readonly RlsStatus[]
  readonly response_headers_to_add: readonly RlsHeader[]
}

/** Largest number of the fields that count requests; also what is said to remain of what has no limit. */
export const UINT32_MAX = 4_294_967_295
