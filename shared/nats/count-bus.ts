import type { CountReport } from '../core/estimate/count-table.ts'
import type { RegionId } from '../core/policy.ts'
import type { CountBus } from '../core/ports.ts'
import { decodeCounts, encodeCounts } from '../protocol/counts.ts'
import { COUNT_SUBJECTS, countSubject, regionOfSubject } from '../protocol/subjects.ts'
import type { NatsLink } from './client.ts'

/** Counts of eventual policies over core NATS: at most once, in any order, own ones and forgeries ignored. */
export class NatsCountBus implements CountBus {
  readonly #link: NatsLink
  readonly #handlers: ((report: CountReport) => void)[] = []

  constructor(link: NatsLink, region: RegionId) {
    this.#link = link
    link.use((connection) => {
      connection.subscribe(COUNT_SUBJECTS, {
        callback: (err, message) => {
          const peer = regionOfSubject(message.subject)
          if (err !== null || peer === region) return
          const report = decodeCounts(message.string())
          if (report === null || report.from !== peer) return
          for (const handle of this.#handlers) handle(report)
        },
      })
    })
  }

  publish(report: CountReport): void {
    for (const payload of encodeCounts(report)) {
      this.#link.publish(countSubject(report.from), payload)
    }
  }

  onReport(handle: (report: CountReport) => void): void {
    this.#handlers.push(handle)
  }
}
