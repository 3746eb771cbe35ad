import type { RegionReport } from '../core/rollout.ts'
import { decodeReport, encodeReport } from '../protocol/rollout-report.ts'
import { ROLLOUT_SUBJECTS, regionOfSubject, rolloutSubject } from '../protocol/subjects.ts'
import type { NatsLink } from './client.ts'

/** What regions apply, over core NATS: at most once, and the next report says it all again. */
export class NatsRolloutBus {
  readonly #link: NatsLink

  constructor(link: NatsLink) {
    this.#link = link
  }

  /** Dropped while NATS is away. */
  publish(report: RegionReport): void {
    this.#link.publish(rolloutSubject(report.from), encodeReport(report))
  }

  /** Calls `handle` with each report that speaks of the region that its subject names; others are ignored. */
  onReport(handle: (report: RegionReport) => void): void {
    this.#link.use((connection) => {
      connection.subscribe(ROLLOUT_SUBJECTS, {
        callback: (err, message) => {
          if (err !== null) return
          const report = decodeReport(message.string())
          if (report !== null && report.from === regionOfSubject(message.subject)) handle(report)
        },
      })
    })
  }
}
