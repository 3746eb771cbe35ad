import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { documentDiffOf, shortDiffOf } from '../../services/admin/views/document-diff.ts'
import { fieldChanges } from '../../shared/core/field-diff.ts'
import { unifiedDiff } from '../../shared/core/line-diff.ts'

/** What `patch` would make of the lines: every hunk must stand where it says. */
function patched(before: readonly string[], diff: readonly string[]): string[] {
  const lines: string[] = []
  let at = 0
  for (const line of diff) {
    const hunk = /^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$/.exec(line)
    if (hunk !== null) {
      const start = Number(hunk[1]) - 1
      lines.push(...before.slice(at, start))
      expect(lines.length).toBe(Number(hunk[3]) - 1)
      at = start
    } else if (line.startsWith('+')) lines.push(line.slice(1))
    else {
      expect(before[at]).toBe(line.slice(1))
      if (line.startsWith(' ')) lines.push(line.slice(1))
      at++
    }
  }
  return [...lines, ...before.slice(at)]
}

describe('a unified diff', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 })

  it('makes the one of the other, and is empty only when both are the same', () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const diff = unifiedDiff(before, after)
        expect(patched(before, diff)).toEqual(after)
        expect(diff.length === 0).toBe(before.join('\n') === after.join('\n'))
      }),
    )
  })

  it('shows a change with three lines around it, and distant changes apart', () => {
    const before = Array.from({ length: 20 }, (_, i) => `line ${i}`)
    const after = before.with(1, 'first').with(15, 'second')
    const diff = unifiedDiff(before, after)
    expect(diff.filter((line) => line.startsWith('@@'))).toEqual([
      '@@ -1,5 +1,5 @@',
      '@@ -13,7 +13,7 @@',
    ])
  })

  it('tells large texts that differ all over as replaced, at once', () => {
    const many = (what: string) => Array.from({ length: 5_000 }, (_, i) => `${what} ${i}`)
    expect(unifiedDiff(many('a'), many('b'))).toHaveLength(10_001)
  })
})

describe('field changes', () => {
  it('name items of lists by their names, and tell what was not there', () => {
    const before = { limits: [{ name: 'a', capacity: 1 }, { name: 'b' }], match: [{ key: 'x' }] }
    const after = {
      limits: [{ name: 'a', capacity: 2 }],
      match: [{ key: 'y' }],
      labels: { t: 's' },
    }
    expect(fieldChanges(before, after)).toEqual([
      { field: 'limits[a].capacity', before: 1, after: 2 },
      { field: 'limits[b]', before: { name: 'b' } },
      { field: 'match', before: [{ key: 'x' }], after: [{ key: 'y' }] },
      { field: 'labels', after: { t: 's' } },
    ])
    expect(fieldChanges(after, after)).toEqual([])
  })
})

describe('a short diff', () => {
  const before = { name: 'a', limits: [{ name: 'l', capacity: 1 }], labels: { team: 'x' } }
  const after = { name: 'a', limits: [{ name: 'l', capacity: 2 }] }
  const states = { kind: 'policy', id: 'api/a', before, after }

  it('has what a whole one has, and the fields that differ in place of the documents', () => {
    const { text, ...rest } = documentDiffOf(states)
    const short = shortDiffOf(states)
    expect(short).toMatchObject(rest)
    expect(text).toContain('   - name: l\n-    capacity: 1\n+    capacity: 2\n')
    expect(short.text).toBe(
      '--- policy api/a\n+++ policy api/a\n-limits[l].capacity: 1\n+limits[l].capacity: 2\n-labels: {"team":"x"}\n',
    )
  })

  it('says what is added and removed, and nothing of what is the same', () => {
    expect(shortDiffOf({ ...states, before: null }).text).toBe('--- /dev/null\n+++ policy api/a\n')
    expect(shortDiffOf({ ...states, after: null }).text).toBe('--- policy api/a\n+++ /dev/null\n')
    expect(shortDiffOf({ ...states, before: after }).text).toBe('')
  })
})
