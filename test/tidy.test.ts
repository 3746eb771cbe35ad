import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'

/** The style guide as a test: what the linter cannot see. */

const LINES_MAX = 400

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(path))

const text = (path: string): string => readFileSync(path, 'utf8')
const matching = (pattern: RegExp): string[] => files.filter((path) => pattern.test(path))
const source = matching(/^(shared|services|client)\/.*\.tsx?$/)
const tests = matching(/^test\/.*\.ts$/)

function hits(paths: readonly string[], pattern: RegExp): string[] {
  return paths.flatMap((path) =>
    text(path)
      .split('\n')
      .flatMap((line, index) =>
        pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [],
      ),
  )
}

describe('code', () => {
  it('keeps clocks, randomness, timers and the environment out of the core', () => {
    const world =
      /Date\.now\(|new Date\(|Math\.random\(|performance\.|setTimeout\(|setInterval\(|process\.|from 'node:/
    expect(hits(matching(/^shared\/core\/.*\.ts$/), world)).toEqual([])
  })

  it('reads the environment only in the main.ts of a service', () => {
    const readers = source.filter((path) => !/^services\/[a-z]+\/main\.ts$/.test(path))
    expect(hits(readers, /process\.env\b/)).toEqual([])
  })

  it('repeats work only through every(), so that steps never overlap', () => {
    expect(hits(source, /setInterval\(/)).toEqual([])
  })

  it('loads OpenTelemetry only where traces are sent to', () => {
    const library = 'shared/runtime/tracing/open-telemetry.ts'
    const others = source.filter((path) => path !== library)
    expect(hits(others, /from '@opentelemetry|import\('@opentelemetry/)).toEqual([])
    const loading = hits([...source, ...tests], /open-telemetry\.ts'/).filter(
      (line) => !line.startsWith('test/tidy'),
    )
    expect(loading).toEqual([expect.stringContaining("await import('./open-telemetry.ts')")])
  })

  it('keeps files short enough to read', () => {
    const code = matching(/\.(ts|tsx|lua|sql)$/)
    expect(code.filter((path) => text(path).split('\n').length > LINES_MAX)).toEqual([])
  })

  it('has no any, no non-null assertion by ignore, and no unexplained suppression', () => {
    expect(
      hits(
        [...source, ...tests.filter(notThisFile)],
        /@ts-ignore|@ts-expect-error|biome-ignore-all/,
      ),
    ).toEqual([])
  })

  it('leaves nothing marked as unfinished and no test focused or skipped', () => {
    const all = matching(/\.(ts|tsx|lua|sql|md)$/).filter(notThisFile)
    expect(hits(all, /\b(TODO|FIXME|XXX)\b|\b(it|describe|test)\.(only|skip)\(/)).toEqual([])
  })

  it('waits in tests for what happens, never for a fixed time', () => {
    const naps = /await (sleep|delay|setTimeout)\(\d/
    expect(hits(tests.filter(notThisFile), naps)).toEqual([])
  })
})

describe('documents', () => {
  it('link only to files that exist', () => {
    const broken = matching(/\.md$/).flatMap((path) =>
      [...text(path).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)]
        .map((match) => join(dirname(path), match[1] ?? ''))
        .filter((target) => !existsSync(target))
        .map((target) => `${path} -> ${target}`),
    )
    expect(broken).toEqual([])
  })

  it('name only invariants that a test cites', () => {
    const invariants = [...text('ARCHITECTURE.md').matchAll(/^\| (INV-\d+) /gm)].map(
      (m) => m[1] ?? '',
    )
    const cited = tests.filter(notThisFile).map(text).join('\n')
    expect(invariants.length).toBeGreaterThan(0)
    expect(invariants.filter((id) => !new RegExp(`${id}\\b`).test(cited))).toEqual([])
  })

  it('have one title each', () => {
    const titles = matching(/\.md$/).map((path) => {
      const prose = text(path).replaceAll(/```[\s\S]*?```/g, '')
      return { path, count: [...prose.matchAll(/^# /gm)].length }
    })
    expect(titles.filter(({ count }) => count !== 1)).toEqual([])
  })

  it('keep the glossary to one meaning a word', () => {
    const words = [...text('docs/glossary.md').matchAll(/^\| \*\*([^*]+)\*\*/gm)].map((m) => m[1])
    expect(new Set(words).size).toBe(words.length)
  })
})

function notThisFile(path: string): boolean {
  return path !== 'test/tidy.test.ts'
}
