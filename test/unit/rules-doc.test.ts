import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { MUTANT_NAMES } from '../exhaustive/mutants.ts'
import { HUNTS } from '../simulation/kills.ts'

const page = readFileSync('docs/spec/rules.md', 'utf8')
const tables = page.split('\n').filter((line) => line.startsWith('|'))
const found = (pattern: RegExp): readonly string[] => [
  ...new Set(tables.flatMap((line) => [...line.matchAll(pattern)].map(([, name]) => name ?? ''))),
]

it('docs/spec/rules.md names every broken variant that is played, and no other', () => {
  expect([...found(/\*([^*]+)\*/g)].sort()).toEqual(HUNTS.map(({ rule }) => rule).sort())
})

it('docs/spec/rules.md names every broken rule that is searched, and no other', () => {
  expect([...found(/`([a-z]+(?:-[a-z]+)+)`/g)].sort()).toEqual([...MUTANT_NAMES].sort())
})
