/** Wall clocks show this when traffic begins: the edge of every usual window. */
export const EPOCH_US = 1_749_999_600_000_000
