import { decodeFacts, encodeFacts, type SyncFacts } from '../protocol/facts.ts'
import { FACTS_SUBJECTS, factsSubject, regionOfSubject } from '../protocol/subjects.ts'
import type { NatsLink } from './client.ts'

/** What daemons tell of themselves, over core NATS: at most once, and the next telling says it all again. */
export class NatsFactsBus {
  readonly #link: NatsLink
  #natsVersion: string | null = null

  constructor(link: NatsLink) {
    this.#link = link
    link.use((connection) => {
      this.#natsVersion = connection.info?.version ?? null
    })
  }

  /** Of the server that this process is connected to, or was last. */
  get natsVersion(): string | null {
    return this.#natsVersion
  }

  /** Dropped while NATS is away. */
  publish(facts: SyncFacts): void {
    this.#link.publish(factsSubject(facts.from), encodeFacts(facts))
  }

  /** Calls `handle` with facts that speak of the region that their subject names; others are ignored. */
  onFacts(handle: (facts: SyncFacts) => void): void {
    this.#link.use((connection) => {
      connection.subscribe(FACTS_SUBJECTS, {
        callback: (err, message) => {
          if (err !== null) return
          const facts = decodeFacts(message.string())
          if (facts !== null && facts.from === regionOfSubject(message.subject)) handle(facts)
        },
      })
    })
  }
}
