/**
 * The API reference as one page, made of the OpenAPI document here on the server.
 *
 * No script and nothing from elsewhere: it works offline and under the strictest content policy, and costs no package.
 * A generated explorer was left out for its megabytes; what it adds, sending requests, curl and the CLI do.
 */
import { createHash } from 'node:crypto'

// biome-ignore lint/suspicious/noExplicitAny: what the document holds is whatever the standard allows.
type Json = any

const STYLE = `
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem}
code,pre{font:14px/1.4 ui-monospace,monospace}
pre{overflow:auto;padding:.75rem;border:1px solid #8886;border-radius:4px}
summary{cursor:pointer;padding:.25rem 0}
details{border-bottom:1px solid #8884}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25rem .5rem;border-top:1px solid #8884}
.method{display:inline-block;min-width:4.5rem;font-weight:700}
nav a{margin-right:1rem}
`

/** What browsers may do with the page: show it, in its own style, and nothing else. */
export const PAGE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** The whole page. */
export function pageOf(document: Json): string {
  const operations = operationsOf(document)
  const tags = [...new Set(operations.map(({ tag }) => tag))]
  const links = tags.map((tag) => `<a href="#${escaped(tag)}">${escaped(tag)}</a>`).join('')
  const sections = tags.map((tag) => {
    const own = operations.filter((one) => one.tag === tag)
    return `<h2 id="${escaped(tag)}">${escaped(tag)}</h2>${own.map(operationOf).join('')}`
  })
  const schemas = Object.entries<Json>(document.components?.schemas ?? {}).map(
    ([name, schema]) =>
      `<details id="schema-${escaped(name)}"><summary><code>${escaped(name)}</code></summary>${json(schema)}</details>`,
  )
  const { title, description } = document.info
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>${escaped(title)}</title><style>${STYLE}</style></head>
<body><main>
<h1>${escaped(title)}</h1>
<p>${escaped(description)} The document itself: <a href="/openapi.json">/openapi.json</a> (OpenAPI ${escaped(document.openapi)}).</p>
<p>Every request but those of health needs <code>Authorization: Bearer &lt;token&gt;</code>. Every refusal is a problem document (RFC 9457) with a code, the fields that are wrong and how to mend them.</p>
<nav aria-label="Groups">${links}<a href="#schemas">schemas</a></nav>
${sections.join('\n')}
<h2 id="schemas">schemas</h2>
${schemas.join('\n')}
</main></body></html>
`
}

interface Operation {
  readonly tag: string
  readonly method: string
  readonly path: string
  readonly operation: Json
}

function operationsOf(document: Json): readonly Operation[] {
  return Object.entries<Json>(document.paths ?? {}).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => ({
      tag: String(operation.tags?.[0] ?? 'other'),
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
}

function operationOf({ method, path, operation }: Operation): string {
  const { summary = '', description = '', parameters = [], requestBody, responses = {} } = operation
  const body = requestBody?.content ?? {}
  return `<details><summary><span class="method">${method}</span><code>${escaped(path)}</code> ${escaped(summary)}</summary>
<p>${escaped(description)}</p>
${parameters.length === 0 ? '' : parametersOf(parameters)}
${Object.keys(body).length === 0 ? '' : `<h3>Request</h3>${contentOf(body)}`}
${Object.entries<Json>(responses)
  .map(
    ([status, answer]) =>
      `<h3>${escaped(status)}</h3><p>${escaped(answer.description ?? '')}</p>${contentOf(answer.content ?? {})}`,
  )
  .join('')}
</details>`
}

function parametersOf(parameters: readonly Json[]): string {
  const rows = parameters.map(
    ({ name, in: place, required, description = '', schema, example }) =>
      `<tr><td><code>${escaped(name)}</code></td><td>${escaped(place)}${required === true ? ', required' : ''}</td><td>${escaped(description || (schema?.description ?? ''))}</td><td><code>${escaped(String(example ?? ''))}</code></td></tr>`,
  )
  return `<table><tr><th>parameter</th><th>in</th><th>meaning</th><th>example</th></tr>${rows.join('')}</table>`
}

function contentOf(content: Json): string {
  return Object.entries<Json>(content)
    .map(([type, { schema, example }]) => {
      const name = /\/([^/]+)$/.exec(schema?.$ref ?? '')?.[1]
      const link =
        name === undefined ? '' : ` <a href="#schema-${escaped(name)}">${escaped(name)}</a>`
      return `<p><code>${escaped(type)}</code>${link}</p>${json(example)}`
    })
    .join('')
}

function json(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')
  return `<pre>${escaped(text)}</pre>`
}

function escaped(text: string): string {
  return String(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
