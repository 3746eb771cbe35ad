/** What is known of one key's demand in this region. `hungry`: it denies more than noise explains. */
export interface DemandEstimate {
  readonly atMs: number
  /** Cumulative figures at `atMs`. */
  readonly admitted: number
  readonly denied: number
  readonly returned: number
  /** Attempted tokens a second, smoothed; null before the first interval. */
  readonly perSecond: number | null
  readonly hungry: boolean
}
