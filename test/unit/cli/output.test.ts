import { describe, expect, it } from 'vitest'
import { CliError } from '../../../services/cli/errors.ts'
import { outputFlags, rendered, show, type View } from '../../../services/cli/output.ts'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from './fake-io.ts'

const VIEW: View = {
  data: { regions: [{ id: 'us', note: 'a: b' }] },
  headers: ['region', '>lag'],
  rows: [['us', '1.2']],
  names: ['us', 'eu'],
  notes: ['One is silent.'],
}
const WITH_TITLES = { headers: true }

describe('a view', () => {
  it.each([
    ['table', 'region  lag\nus      1.2\nOne is silent.\n'],
    ['json', '{"regions":[{"id":"us","note":"a: b"}]}\n'],
    ['yaml', 'regions:\n  - id: us\n    note: "a: b"\n'],
    ['name', 'us\neu\n'],
  ] as const)('is printed as %s', (format, text) => {
    expect(rendered(VIEW, format, WITH_TITLES)).toBe(text)
  })

  it('leaves the titles out where they are not wanted', () => {
    expect(rendered(VIEW, 'table', { headers: false })).toBe('us      1.2\nOne is silent.\n')
  })

  it('shows control characters of others written out, so that none paints or hides a line', () => {
    const forged = 'all clear\r\n7  fix  api/x \u001b[2K\u009b31m\u202egnorw'
    const view = { ...VIEW, rows: [[forged, '1']], notes: [forged] }
    const lines = rendered(view, 'table', { headers: false }).split('\n')
    const written = 'all clear\\u000d\\u000a7  fix  api/x \\u001b[2K\\u009b31m\\u202egnorw'
    expect(lines).toEqual([`${written}    1`, written, ''])
  })

  it('of nothing prints no name at all', () => {
    expect(rendered({ ...VIEW, names: [] }, 'name', WITH_TITLES)).toBe('')
  })
})

/** Shows a view that counts its looks, and stops the process after `looks` of them. */
async function watched(looks: number, flags: object, isTerminal = false) {
  const stopping = new AbortController()
  const plain = ioWith({})
  const io = { ...plain, out: { ...plain.out, isTerminal }, signal: stopping.signal }
  let look = 0
  // Below the flag's own bound, which keeps people from hammering admin and not tests from ending soon.
  await show(io, { ...outputFlags.parse({ watch: true, ...flags }), interval: 0.001 }, () => {
    look++
    if (look >= looks) stopping.abort()
    if (look === 2) throw new CliError('admin is away')
    return { ...VIEW, data: { look } }
  })
  return plain.written
}

describe('watching', () => {
  it('appends JSON lines where nobody watches, goes on after a failed look, and ends well', async () => {
    const { out, err } = await watched(3, {})
    expect(out).toBe('{"look":1}\n{"look":3}\n')
    expect(err).toBe('quotaplane: admin is away; trying again\n')
  })

  it('keeps the form that was asked for, as documents of their own in YAML', async () => {
    expect((await watched(3, { output: 'yaml' })).out).toBe('---\nlook: 1\n---\nlook: 3\n')
  })

  it('redraws the table on a terminal', async () => {
    const { out } = await watched(3, {}, true)
    const frame = `\u001b[2J\u001b[H${rendered(VIEW, 'table', WITH_TITLES)}`
    expect(out).toBe(frame + frame)
  })

  it('fails when the first look does', async () => {
    const flags = outputFlags.parse({ watch: true })
    const failing = show(ioWith({}), flags, () => {
      throw new CliError('no such plane')
    })
    await expect(failing).rejects.toThrow('no such plane')
  })
})

describe('the flags', () => {
  it.each([
    ['an unknown form', ['context', 'list', '-o', 'xml']],
    ['two forms at once', ['context', 'list', '--json', '-o', 'yaml']],
    ['an interval that would hammer admin', ['shares', '--watch', '--interval', '0.1']],
  ])('refuse %s with 2', async (_what, args) => {
    const io = ioWith({ env: { XDG_CONFIG_HOME: '/nonexistent' } })
    expect(await runProgram(args, io)).toBe(2)
    expect(io.written.out).toBe('')
  })
})
