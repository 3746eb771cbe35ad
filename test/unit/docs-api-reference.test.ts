import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { referencePage } from '../docs/api-reference.ts'
import { REFERENCES } from '../docs/documents.ts'

describe.each(REFERENCES)('$path', (reference) => {
  it('is what the service says of its API (npm run docs:api writes it anew)', async () => {
    const document = await reference.document()
    const written = existsSync(reference.path) ? readFileSync(reference.path, 'utf8') : ''
    expect(written).toBe(referencePage(reference, document))
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const method of Object.keys(methods)) {
        expect(written).toContain(`### \`${method.toUpperCase()} ${path}\``)
      }
    }
  })
})
