/** `npm run docs:api`: writes the pages of the API reference anew. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { referencePage } from './api-reference.ts'
import { REFERENCES } from './documents.ts'

for (const reference of REFERENCES) {
  const path = join(PACKAGE_ROOT, reference.path)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, referencePage(reference, await reference.document()))
  process.stdout.write(`${reference.path}\n`)
}
