/** The lending protocol's numbers. Lender and borrower must agree on them, so none is a setting. */

/**
 * How long a loan lasts after the borrower sent the record that the lender acknowledged.
 *
 * Longer rides out longer silences of the bus; shorter gives a lender its units back sooner when the borrower
 * dies, and a cut-off region falls back to its own base sooner. Never part of the bound on over-admission.
 */
export const LOAN_TTL_MS = 10_000

/** Most that a region's monotonic clock gains or loses against real time. NTP slews at half of this. */
export const DRIFT = 1 / 1_000

/** Added to the lender's wait: the time that a daemon may take between reading its clock and acting. */
export const LENDER_GUARD_MS = 250

/**
 * How long a lender waits after it received the last record that it acknowledged.
 *
 * The borrower's lease ends within LOAN_TTL_MS of its own, slowest clock; the lender measures with its own,
 * fastest one. Also how long a region that lost its memory waits: its old loans end within it.
 */
export const LENDER_WAIT_MS = Math.ceil((LOAN_TTL_MS * (1 + DRIFT)) / (1 - DRIFT)) + LENDER_GUARD_MS

/** Most by which the wall clocks of two regions differ (fixed windows only; the daemons watch it). */
export const CLOCK_SKEW_MAX_MS = 50

/** Records are published this often, and each is complete: a lost one costs a tick. */
export const TICK_MS = 1_000

/** Least time between records. Shorter follows steps of load faster and costs as many more messages. */
export const URGENT_SPACING_MS = 100

/** A region that stays hungry asks again this often, and only while others are seen to have more than they need. */
export const HUNGRY_REPEAT_MS = 200

/**
 * A peer unheard for this long takes no part in rebalancing: two missed ticks and half of one for jitter.
 * Shorter would leave peers out for one lost record; longer offers units to a region that cannot hear of them.
 */
export const SILENT_AFTER_MS = 2_500

/**
 * A peer whose newest acknowledgement is of a record sent longer ago than this does not hear this region any more:
 * two silences, one for each direction. Well below LOAN_TTL_MS, so a loan is never begun that must lapse.
 */
export const DEAF_AFTER_MS = 2 * SILENT_AFTER_MS

/**
 * Most keys with a ledger of their own in one region. A key costs about 1 kB here, 300 bytes in each record and
 * one write a tick while it borrows; ten thousand are what a daemon handles within a tenth of a second. Keys
 * beyond it stay on their base part: less use of idle shares, never a wrong decision.
 */
export const TRACKED_KEYS_MAX = 10_000

/** A key without need is given back, then forgotten, after this long: well above the pauses of bursty callers. */
export const COOL_AFTER_MS = 30_000
