/** Makes a Markdown page of an OpenAPI document. */

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly additionalProperties?: Schema | boolean
}

interface Media {
  readonly schema?: Schema
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value?: unknown }>>
}

type Content = Readonly<Record<string, Media>>

interface Operation {
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema?: Schema
  }[]
  readonly requestBody?: { readonly content?: Content }
  readonly responses?: Readonly<
    Record<string, { readonly description?: string; readonly content?: Content }>
  >
}

export interface OpenApi {
  readonly openapi: string
  readonly info: { readonly title: string; readonly description?: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> }
}

/** Deeper parts of a body are left to the document itself. */
const DEPTH_MAX = 3

/** Of every route of admin; the page says so once. */
const SAID_ABOVE: ReadonlySet<string> = new Set(['4XX', '5XX'])

/** What the generator of the document writes where a route says nothing. */
const UNSAID = 'Default Response'

/** Routes without a group are what the service is for. */
const UNGROUPED = 'routes'

export function referencePage(
  { title, intro }: { readonly title: string; readonly intro: string },
  document: OpenApi,
): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      tag: operation.tags?.[0] ?? UNGROUPED,
      operation,
    })),
  )
  const tags = [...new Set(operations.map(({ tag }) => tag))]
  const sections = tags.flatMap((tag) => [
    `## ${tag}`,
    ...operations
      .filter((one) => one.tag === tag)
      .flatMap(({ name, operation }) => operationLines(name, operation, document)),
  ])
  const schemas = Object.entries(document.components?.schemas ?? {}).flatMap(([name, schema]) => {
    const fields = fieldsOf(schema, document, { prefix: '', depth: 0 })
    const whole =
      `${sentence(typeOf(schema, document))} ${sentence(schema.description ?? '')}`.trim()
    return [
      `### ${name}`,
      fields.length > 0 ? tableOf(['field', 'type', 'meaning'], fields) : whole,
    ]
  })
  const made =
    'Made of `/openapi.json` by `npm run docs:api`; a test fails where the two differ. `/docs` of an admin shows its own, with examples of every answer.'
  return `${[`# ${title}`, intro, made, ...sections, '## Schemas', ...schemas].join('\n\n')}\n`
}

function operationLines(name: string, operation: Operation, document: OpenApi): readonly string[] {
  const { summary = '', description, parameters = [], requestBody, responses = {} } = operation
  const lines = [
    `### \`${name}\``,
    `${sentence(summary)}${description ? ` ${sentence(description)}` : ''}`,
  ]
  if (parameters.length > 0) {
    lines.push(
      tableOf(
        ['parameter', 'in', 'type', 'meaning'],
        parameters.map((one) => [
          `\`${one.name}\`${one.required === true ? '' : ' (optional)'}`,
          one.in,
          typeOf(one.schema, document),
          withDefault(one.description ?? one.schema?.description, one.schema),
        ]),
      ),
    )
  }
  const body = jsonOf(requestBody?.content)
  if (body?.schema !== undefined) {
    const fields = fieldsOf(body.schema, document, { prefix: '', depth: 0 })
    if (fields.length > 0) lines.push(tableOf(['field of the body', 'type', 'meaning'], fields))
    const example = body.example ?? Object.values(body.examples ?? {})[0]?.value
    if (example !== undefined) lines.push(`\`\`\`json\n${JSON.stringify(example, null, 2)}\n\`\`\``)
  }
  const said = Object.entries(responses).filter(([status]) => !SAID_ABOVE.has(status))
  const answers = said.map(([status, { description: what = '', content }]) => {
    const schema = jsonOf(content)?.schema
    const type = schema === undefined ? '' : typeOf(schema, document)
    const meaning = what === UNSAID ? '' : sentence(what)
    return `- \`${status}\` ${[type, meaning].filter((part) => part !== '').join(': ')}`.trimEnd()
  })
  return [...lines, answers.join('\n')]
}

function jsonOf(content: Content | undefined): Media | undefined {
  return content?.['application/json'] ?? Object.values(content ?? {})[0]
}

function fieldsOf(
  schema: Schema,
  document: OpenApi,
  at: { readonly prefix: string; readonly depth: number },
): readonly (readonly string[])[] {
  const { properties = {}, required = [] } = resolved(schema, document)
  return Object.entries(properties).flatMap(([name, field]) => {
    const path = `${at.prefix}${name}`
    const isRequired = required.includes(name)
    const inner = resolved(field, document)
    const item = inner.items === undefined ? null : resolved(inner.items, document)
    const row = [
      `\`${path}\`${isRequired ? '' : ' (optional)'}`,
      typeOf(field, document),
      withDefault(inner.description, inner),
    ]
    // What has a name of its own has a table of its own.
    const isNamed = field.$ref !== undefined || inner.items?.$ref !== undefined
    if (isNamed || at.depth + 1 >= DEPTH_MAX) return [row]
    const deeper = { prefix: `${path}${item === null ? '.' : '[].'}`, depth: at.depth + 1 }
    return [row, ...fieldsOf(item ?? inner, document, deeper)]
  })
}

function resolved(schema: Schema, document: OpenApi): Schema {
  const name = schema.$ref?.split('/').at(-1)
  if (name === undefined) return schema
  return document.components?.schemas?.[name] ?? {}
}

function typeOf(schema: Schema | undefined, document: OpenApi): string {
  if (schema === undefined) return ''
  const name = schema.$ref?.split('/').at(-1)
  if (name !== undefined) return name
  if (schema.const !== undefined) return `\`${String(schema.const)}\``
  if (schema.enum !== undefined) return schema.enum.map((one) => `\`${String(one)}\``).join(', ')
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) {
    return [...new Set(choices.map((one) => typeOf(one, document)))].join(' or ')
  }
  if (schema.items !== undefined) return `list of ${typeOf(schema.items, document)}`
  return [schema.type ?? 'any'].flat().join(' or ')
}

function withDefault(description: string | undefined, schema: Schema | undefined): string {
  const text = description === undefined ? '' : sentence(description)
  if (schema?.default === undefined) return text
  return `${text} Default: \`${JSON.stringify(schema.default)}\`.`.trim()
}

function sentence(text: string): string {
  const trimmed = text.trim()
  return trimmed === '' || /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`
}

function tableOf(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`
  return [line(titles), line(titles.map(() => '---')), ...rows.map(line)].join('\n')
}
