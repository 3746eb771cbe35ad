/** One key and value that identify what is limited. */
export interface DescriptorEntry {
  readonly key: string
  readonly value: string
}

export interface Descriptor {
  readonly entries: readonly DescriptorEntry[]
}

/** Bounds of a check; larger is refused with a 400 that names the field. */
export const DESCRIPTORS_MAX = 16
export const ENTRIES_MAX = 16
export const ENTRY_KEY_BYTES_MAX = 256
export const ENTRY_VALUE_BYTES_MAX = 1_024

/**
 * Identifies one counter of one limit in every region: `{tag}limit.usageEpoch:name`.
 *
 * The same descriptor gives the same id everywhere, so it is also the key's name on the wire; `{tag}` is the
 * hash tag of its slot group. Built only by `counterId`.
 */
export type CounterId = string
