import type { DescriptorEntry } from '../shared/core/descriptor.ts'

/**
 * What is limited: `{ tenant: 'acme', route: '/search' }`, in the order in which the policy matches.
 *
 * JavaScript moves keys that are whole numbers to the front of an object; give such entries as a list.
 */
export type Descriptor = Readonly<Record<string, string>> | readonly DescriptorEntry[]

export interface Check {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  /** Tokens to take; 1 unless told, 0 reads without taking. */
  readonly cost?: number
  /** Names this check for `refund` and `release`: at most 128 bytes, unique for as long as they may come. */
  readonly requestId?: string
  readonly signal?: AbortSignal
}

/** A check that can be taken back. */
export type NamedCheck = Check & { readonly requestId: string }

/** The JSON that an enforcer reads. */
export function encodeCheck(
  check: Omit<Check, 'signal'>,
  more: { readonly admittedAtUs?: number } = {},
): string {
  const { domain, descriptors, cost, requestId } = check
  const encoded = descriptors.map((descriptor) => ({ entries: entriesOf(descriptor) }))
  return JSON.stringify({ domain, descriptors: encoded, cost, requestId, ...more })
}

/** In the order in which the policy matches. */
export function entriesOf(descriptor: Descriptor): readonly DescriptorEntry[] {
  if (isList(descriptor)) return descriptor
  return Object.entries(descriptor).map(([key, value]) => ({ key, value }))
}

function isList(descriptor: Descriptor): descriptor is readonly DescriptorEntry[] {
  return Array.isArray(descriptor)
}
