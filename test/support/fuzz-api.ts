/** Requests made at random from an OpenAPI document: mostly near to valid ones, some nonsense. */

// biome-ignore lint/suspicious/noExplicitAny: a JSON schema is whatever the document says.
export type Json = any

export interface FuzzRequest {
  readonly method: string
  /** As the document has it, with the names of its parameters. */
  readonly path: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly payload?: string
}

/** A random number from 0 to below 1. */
export type Random = () => number

/** Values that break parsers, databases, logs and prototypes. */
const NASTY: readonly unknown[] = [
  '',
  ' ',
  '*',
  '%',
  '%00',
  '\u0000',
  '\ud800',
  '🦊'.repeat(40),
  'a'.repeat(5_000),
  '__proto__',
  'constructor',
  "'; drop table audit; --",
  '../../etc/passwd',
  '{{7*7}}',
  '-1',
  '9007199254740993',
  '1e309',
  '0x10',
  'NaN',
  '2027-13-45T99:99:99Z',
  '275760-09-13T00:00:00.001Z',
  '0000-01-01T00:00:00Z',
  'eyJhbGciOiJub25lIn0.e30.',
  -1,
  0,
  1.5,
  1e300,
  2 ** 53 + 2,
  null,
  true,
  [],
  {},
  [[[[[[]]]]]],
  { __proto__: null, constructor: { prototype: {} } },
]

/** Names that the plane under test has, so that requests get past the first look-up. */
const KNOWN: Readonly<Record<string, readonly unknown[]>> = {
  domain: ['api', 'web', 'a_i'],
  name: ['per-tenant', 'p0', 'p1', 'p2', 'p3'],
  policy: ['per-tenant', 'p0', 'p1'],
  region: ['us-east-1', 'eu-west-1'],
  id: ['us-east-1', 'eu-west-1', 'ap-south-1', '1', '2', 'abcdefghijklmnop'],
  revision: ['latest', 1, 2, 3],
  number: [1, 2, 3, 10],
  against: [0, 1, 2],
  value: ['acme', 'bravo', 'a b/c'],
  key: ['tenant', 'tenant=acme', 'x'],
  limit: [1, 2, 100],
  cursor: ['WyJhcGkiLCJhIl0', 'WzFd', 'WzEsMiwzXQ', 'WzEsMiwzLCJ4Il0'],
  'if-match': ['*', '"1"', '"2"', 'W/"1"'],
  'if-none-match': ['*'],
  'idempotency-key': ['key-1', 'key-2'],
  from: ['2027-01-15T00:00:00Z', '2020-01-01T00:00:00+02:00'],
  to: ['2027-01-16T00:00:00Z'],
  since: ['2020-01-01T00:00:00Z'],
  capacity: [1, 10, 10_000],
  windowMs: [1_000, 60_000, 86_400_000],
  algorithm: ['token_bucket', 'fixed_window', 'concurrency'],
}

/** How much of what is made up is nonsense. */
const NASTY_PART = 0.12
const DEPTH_MAX = 8

export class ApiFuzzer {
  readonly #document: Json
  readonly #random: Random
  readonly #operations: readonly { method: string; path: string; operation: Json }[]

  constructor(document: Json, random: Random, isMeant: (path: string) => boolean) {
    this.#document = document
    this.#random = random
    this.#operations = Object.entries<Json>(document.paths)
      .filter(([path]) => isMeant(path))
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
      )
  }

  get size(): number {
    return this.#operations.length
  }

  next(): FuzzRequest {
    const { method, path, operation } = this.#pick(this.#operations)
    const { url, headers } = this.#address(path, operation.parameters ?? [])
    const request = { method: method.toUpperCase(), path, url, headers }
    const schema = operation.requestBody?.content?.['application/json']?.schema
    if (schema === undefined && this.#random() > 0.05) return request
    return { ...request, ...this.#body(schema ?? {}, headers) }
  }

  #address(path: string, parameters: readonly Json[]): Pick<FuzzRequest, 'url' | 'headers'> {
    const headers: Record<string, string> = {}
    const query = new URLSearchParams()
    let url = path
    const given = parameters.filter((one) => one.required || this.#random() > 0.6)
    for (const { in: place, name, schema } of given) {
      const text = this.#text(this.#value(schema, name, 0))
      if (place === 'path') url = url.replace(`{${name}}`, encoded(text))
      else if (place === 'query') query.append(name, text)
      else headers[name] = text.replace(/[^\x20-\x7e]/g, '?')
    }
    if (this.#random() < 0.03) query.append('unknown', 'x')
    return { url: query.size === 0 ? url : `${url}?${query}`, headers }
  }

  #body(schema: Json, headers: Record<string, string>): Pick<FuzzRequest, 'payload'> {
    const chance = this.#random()
    headers['content-type'] = chance < 0.02 ? 'text/plain' : 'application/json'
    if (chance < 0.04) return { payload: '{"a":' }
    if (chance < 0.05) return { payload: '{"__proto__":{"x":1}}' }
    if (chance < 0.06) return { payload: `${'['.repeat(2_000)}${']'.repeat(2_000)}` }
    return { payload: JSON.stringify(this.#value(schema, '', 0)) ?? 'null' }
  }

  #value(schema: Json, name: string, depth: number): unknown {
    if (depth > DEPTH_MAX) return null
    if (this.#random() < NASTY_PART / (1 + depth)) return this.#pick(NASTY)
    if (schema?.$ref !== undefined) return this.#value(this.#resolve(schema.$ref), name, depth)
    const choices = schema?.anyOf ?? schema?.oneOf
    if (choices !== undefined) return this.#value(this.#pick(choices), name, depth + 1)
    if (schema?.const !== undefined) return schema.const
    if (schema?.enum !== undefined) return this.#pick(schema.enum)
    return this.#ofType(schema ?? {}, name, depth)
  }

  #ofType(schema: Json, name: string, depth: number): unknown {
    switch (Array.isArray(schema.type) ? this.#pick(schema.type) : schema.type) {
      case 'object':
        return this.#object(schema, name, depth)
      case 'array':
        return Array.from({ length: Math.floor(this.#random() * 4) }, () =>
          this.#value(schema.items, name, depth + 1),
        )
      case 'boolean':
        return this.#random() < 0.5
      case 'integer':
      case 'number':
        return this.#known(name) ?? this.#pick([schema.minimum ?? 0, schema.maximum ?? 7, 1, 10])
      case 'null':
        return null
      default:
        return this.#known(name) ?? this.#pick(['api', 'acme', 'us-east-1', 'tenant', 'x1'])
    }
  }

  #object(schema: Json, name: string, depth: number): unknown {
    const required = new Set<string>(schema.required ?? [])
    const entries = Object.entries<Json>(schema.properties ?? {})
      .filter(([key]) => required.has(key) || this.#random() < 0.4)
      .filter(() => this.#random() > 0.01)
      .map(([key, one]) => [key, this.#value(one, key, depth + 1)] as const)
    if (typeof schema.additionalProperties === 'object') {
      const of = this.#value(schema.additionalProperties, name, depth + 1)
      const key = name === 'split' ? 'us-east-1' : 'per-second'
      entries.push([key, name === 'split' ? this.#pick([100, 60]) : of])
    }
    if (this.#random() < 0.02) entries.push(['unknown', 1])
    return Object.fromEntries(entries)
  }

  #known(name: string): unknown {
    const known = KNOWN[name]
    return known === undefined ? undefined : this.#pick(known)
  }

  #text(value: unknown): string {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined')
  }

  #resolve(ref: string): Json {
    return ref
      .slice(2)
      .split('/')
      .reduce<Json>((at, part) => at?.[part], this.#document)
  }

  #pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.#random() * choices.length)] as T
  }
}

/** Also of what no URL can hold: it is sent as it is then, and must be refused. */
function encoded(text: string): string {
  try {
    return encodeURIComponent(text)
  } catch {
    return '%ED%A0%80'
  }
}
