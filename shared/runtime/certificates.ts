/**
 * Certificates that are renewed while a service runs.
 *
 * The texts of those that are named by file are read again now and then, and when the service gets SIGHUP. New ones are
 * taken only when they could be used, so that a half-written or wrong file never costs a connection; each connection
 * that is made later uses them, and those that are open stay. What is not named by file never changes.
 */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { assert } from '../core/assert.ts'
import { Secret } from './env.ts'
import type { Logger } from './logger.ts'
import { type CertificateSettings, LISTENER, type ListenTls, tlsProblems } from './tls.ts'

type Config = Readonly<Record<string, unknown>>

/** What the settings of one use say at the moment. */
interface Texts {
  readonly cert: string | undefined
  readonly key: Secret | undefined
  readonly ca: string | undefined
}

interface Held {
  readonly names: CertificateSettings
  texts: Texts
  /** Why the files cannot be used, and what was read before is kept; null while they can. */
  problem: string | null
  readonly listeners: (() => void)[]
}

const PARTS = ['cert', 'key', 'ca'] as const

/** The certificates of one service. `uses` are those that its settings can describe. */
export class CertificateFiles {
  readonly #environment: Readonly<Record<string, string | undefined>>
  readonly #log: Pick<Logger, 'info' | 'warn'>
  readonly #wallMs: () => number
  readonly #held: readonly Held[]

  constructor(options: {
    readonly config: Config
    /** Where `…_FILE` says which file a setting is read from. */
    readonly environment: Readonly<Record<string, string | undefined>>
    readonly uses: readonly CertificateSettings[]
    readonly log: Pick<Logger, 'info' | 'warn'>
    readonly wallMs: () => number
  }) {
    const { config, environment, uses, log, wallMs } = options
    this.#environment = environment
    this.#log = log
    this.#wallMs = wallMs
    this.#held = uses.map((names) => ({
      names,
      texts: {
        cert: config[names.cert] as string | undefined,
        key: config[names.key] as Secret | undefined,
        ca: config[names.ca] as string | undefined,
      },
      problem: null,
      listeners: [],
    }))
  }

  /**
   * `config`, in which certificates and keys are those that were read last. Whoever connects or listens has to look at
   * the time, and not keep what it saw.
   */
  over<C extends object>(config: C): C {
    const live = { ...config }
    for (const held of this.#held) {
      for (const part of PARTS) {
        const get = () => held.texts[part]
        Object.defineProperty(live, held.names[part], { get, enumerable: true })
      }
    }
    return live
  }

  /** What to listen with; null where that is to be without TLS. */
  listener(): ListenTls | null {
    const held = this.#held.find(({ names }) => names.use === LISTENER)
    assert(held !== undefined, 'settings of a listener')
    const { cert, key } = held.texts
    if (cert === undefined || key === undefined) return null
    return {
      get cert() {
        return held.texts.cert ?? cert
      },
      get key() {
        return held.texts.key ?? key
      },
      get clientCa() {
        return held.texts.ca
      },
      onChange: (listener) => void held.listeners.push(listener),
    }
  }

  /** Whether there is any file to read again. */
  get isByFile(): boolean {
    return this.#held.some((held) => this.#filesOf(held).length > 0)
  }

  /** For each use that has a certificate of its own, when that ends: seconds since 1970. */
  ends(): readonly { readonly use: string; readonly atSeconds: number }[] {
    return this.#held.flatMap(({ names: { use }, texts: { cert } }) =>
      cert === undefined ? [] : [{ use, atSeconds: endMs(cert) / 1_000 }],
    )
  }

  /** For each use with files, whether they could not be used when they were read last. */
  states(): readonly { readonly use: string; readonly isUnusable: boolean }[] {
    return this.#held
      .filter((held) => this.#filesOf(held).length > 0)
      .map(({ names: { use }, problem }) => ({ use, isUnusable: problem !== null }))
  }

  /** Reads the files again and takes what is new, each use by itself. Never rejects for what a file holds. */
  async readOnce(signal?: AbortSignal): Promise<void> {
    await Promise.all(this.#held.map((held) => this.#read(held, signal)))
  }

  async #read(held: Held, signal: AbortSignal | undefined): Promise<void> {
    if (this.#filesOf(held).length === 0) return
    const found = await this.#found(held, signal)
    const problem = typeof found === 'string' ? found : this.#problemOf(held, found)
    if (problem !== null) return this.#refuse(held, problem)
    held.problem = null
    if (typeof found === 'string' || isSame(found, held.texts)) return
    held.texts = found
    const { use } = held.names
    const ends = found.cert === undefined ? {} : { ends: new Date(endMs(found.cert)).toISOString() }
    this.#log.info({ use, ...ends }, 'took a renewed certificate')
    for (const listener of held.listeners) listener()
  }

  /** Said once for each problem, not each time that it is found again. */
  #refuse(held: Held, problem: string): void {
    if (held.problem === problem) return
    held.problem = problem
    const fields = { use: held.names.use, problem }
    this.#log.warn(fields, 'a renewed certificate cannot be used; keeping the one before')
  }

  /** The texts as the files have them, or why they cannot be read. */
  async #found(held: Held, signal: AbortSignal | undefined): Promise<Texts | string> {
    const read: { cert?: string; key?: Secret; ca?: string } = {}
    for (const [part, path] of this.#filesOf(held)) {
      const text = await readFile(path, { encoding: 'utf8', signal }).catch((err: unknown) => {
        // Out of time, or the service is stopping: that says nothing about the file.
        if (signal?.aborted) throw err
        const code = err instanceof Error && 'code' in err ? String(err.code) : 'not readable'
        return { problem: `${held.names[part]}_FILE: cannot read ${path} (${code})` }
      })
      if (typeof text !== 'string') return text.problem
      const whole = text.replace(/\r?\n$/, '')
      if (part === 'key') read.key = new Secret(whole)
      else read[part] = whole
    }
    return { ...held.texts, ...read }
  }

  /** The settings of it that name a file, with its path. */
  #filesOf({ names }: Held): readonly (readonly [(typeof PARTS)[number], string])[] {
    return PARTS.flatMap((part) => {
      const path = this.#environment[`${names[part]}_FILE`]
      return path ? [[part, path] as const] : []
    })
  }

  #problemOf({ names, texts }: Held, { cert, key, ca }: Texts): string | null {
    const [first] = tlsProblems({ [names.cert]: cert, [names.key]: key, [names.ca]: ca }, names)
    if (first !== undefined) return `${first.name}: ${first.message}`
    try {
      createSecureContext({ cert, key: key?.reveal(), ca })
    } catch {
      // What is wrong with it may quote it, and it may be a key.
      return `${names.cert}: cannot be used for TLS`
    }
    // At the start a service takes what it is given; afterwards there is one that has worked.
    return cert === undefined || cert === texts.cert ? null : this.#timeProblem(names.cert, cert)
  }

  #timeProblem(name: string, cert: string): string | null {
    const { validFrom, validTo } = new X509Certificate(cert)
    const nowMs = this.#wallMs()
    if (Date.parse(validFrom) > nowMs) return `${name}: is good only from ${validFrom}`
    if (Date.parse(validTo) < nowMs) return `${name}: has ended, ${validTo}`
    return null
  }
}

/** Of a chain the first is one's own. */
function endMs(cert: string): number {
  return Date.parse(new X509Certificate(cert).validTo)
}

function isSame(one: Texts, other: Texts): boolean {
  const isSameKey = one.key?.reveal() === other.key?.reveal()
  return isSameKey && one.cert === other.cert && one.ca === other.ca
}
