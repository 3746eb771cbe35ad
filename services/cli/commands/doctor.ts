import type { Command } from 'commander'
import { z } from 'zod'
import {
  type DoctorFinding,
  doctorReplySchema,
  type Severity,
} from '../../../shared/protocol/doctor.ts'
import { PACKAGE_VERSION } from '../../../shared/runtime/assets.ts'
import { parseReply } from '../admin-client.ts'
import { probeEnforcers } from '../enforcer-probe.ts'
import { CliError, EXIT } from '../errors.ts'
import { withExitCodes } from '../help.ts'
import type { Io } from '../io.ts'
import { outputFlags, show, type View, withOutput } from '../output.ts'
import { adminOf } from '../settings.ts'
import { findLocalPlane, type LocalPlane } from '../state-file.ts'
import { adminFlags, withAdminFlags, withExamples } from './common.ts'

const doctorFlags = adminFlags.extend(outputFlags.shape).extend({ all: z.boolean().default(false) })

const PROBE_TIMEOUT_MS = 2_000

/** Of this machine and admin's. Tokens and windows bear more; a person reading times does not. */
const CLOCK_MS_MAX = 2_000

/** Adds `quotaplane doctor`. */
export function addDoctorCommand(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  const command = program
    .command('doctor')
    .description('look at every part of an installation, and say what is wrong and what to do')
    .option('--all', 'list what is well, too')
    .action(async (options: unknown) => {
      const flags = doctorFlags.parse(options)
      await show(io, { ...flags, watch: false }, async () => {
        const findings = await examine(flags, io)
        const isIll = findings.some(({ severity }) => isAmiss(severity))
        if (isIll) setExitCode(EXIT.failure)
        return doctorView(findings, flags.all)
      })
    })
  withExamples(withOutput(withAdminFlags(command)), [
    'quotaplane doctor',
    'quotaplane doctor --all -o json',
    'quotaplane doctor --admin-url https://quota.example.com --token "$TOKEN"',
  ])
  command.addHelpText(
    'after',
    '\nNeeds a token with quota:admin. Notes are for information; warnings and problems are for mending.',
  )
  withExitCodes(
    command,
    '0 nothing is amiss, 1 there are warnings or problems, 2 it could not look: admin does not answer, or refuses',
  )
}

async function examine(
  flags: z.infer<typeof doctorFlags>,
  io: Io,
): Promise<readonly DoctorFinding[]> {
  const client = adminOf(flags, io)
  const startedMs = Date.now()
  try {
    const answer = await client.call({ method: 'GET', path: '/v1/doctor' })
    const endedMs = Date.now()
    const reply = parseReply(doctorReplySchema, answer.body)
    const asked = { startedMs, endedMs, atMs: Date.parse(reply.at) }
    const own = [versionFinding(reply.version), clockFinding(asked)]
    const local = findLocalPlane(io.env)
    const probed =
      local?.url === client.url
        ? await localFindings(local, io)
        : await probeEnforcers(reply.enforcers, io)
    return [...own, ...reply.findings, ...probed]
  } catch (err) {
    const why = err instanceof Error ? err.message : String(err)
    throw new CliError(why, EXIT.usage)
  }
}

function versionFinding(version: string): DoctorFinding {
  const head = { part: 'this command', check: 'version' }
  if (version === PACKAGE_VERSION)
    return { ...head, severity: 'ok', message: `is ${version}, as admin` }
  const message = `is ${PACKAGE_VERSION}, and admin ${version}`
  return { ...head, severity: 'warning', message, fix: 'use the command of the version of admin' }
}

/** Admin answered between the two readings, so its time lies between them where the clocks agree. */
function clockFinding(asked: {
  readonly startedMs: number
  readonly endedMs: number
  readonly atMs: number
}): DoctorFinding {
  const head = { part: 'this machine', check: 'clocks' }
  const asideMs = Math.max(asked.startedMs - asked.atMs, asked.atMs - asked.endedMs, 0)
  if (asideMs <= CLOCK_MS_MAX) return { ...head, severity: 'ok', message: 'has the time of admin' }
  const message = `differs by at least ${Math.round(asideMs / 1_000)} s from the clock of admin`
  return { ...head, severity: 'warning', message, fix: 'run NTP on both' }
}

/** Of a local plane the addresses are known; elsewhere enforcers tell theirs by the name of their host. */
async function localFindings(local: LocalPlane, io: Io): Promise<readonly DoctorFinding[]> {
  return await Promise.all(
    local.regions.map(async ({ region, enforcerUrl }): Promise<DoctorFinding> => {
      const head = { part: `enforcer of ${region}`, check: 'ready' }
      const problem = await notReady(enforcerUrl, io)
      if (problem === null)
        return { ...head, severity: 'ok', message: `is ready at ${enforcerUrl}` }
      const fix = `see ${enforcerUrl}/readyz?verbose and its log`
      return { ...head, severity: 'problem', message: problem, fix }
    }),
  )
}

async function notReady(url: string, io: Io): Promise<string | null> {
  try {
    const signal = AbortSignal.any([AbortSignal.timeout(PROBE_TIMEOUT_MS), io.signal])
    const response = await fetch(`${url}/readyz`, { signal })
    return response.ok ? null : `is not ready: ${(await response.text()).slice(0, 200)}`
  } catch {
    return 'does not answer'
  }
}

function isAmiss(severity: Severity): boolean {
  return severity === 'warning' || severity === 'problem'
}

const ORDER: Readonly<Record<Severity, number>> = { problem: 0, warning: 1, note: 2, ok: 3 }

function doctorView(findings: readonly DoctorFinding[], isAll: boolean): View {
  const sorted = [...findings].sort((one, other) => ORDER[one.severity] - ORDER[other.severity])
  const shown = sorted.filter(({ severity }) => isAll || severity !== 'ok')
  const count = (severity: Severity): number =>
    findings.filter((finding) => finding.severity === severity).length
  const amiss = count('problem') + count('warning')
  return {
    data: { isWell: amiss === 0, findings: sorted },
    names: sorted
      .filter(({ severity }) => isAmiss(severity))
      .map(({ part, check }) => `${part}: ${check}`),
    headers: ['', 'part', 'what is found', 'what to do'],
    rows: shown.map(({ severity, part, message, fix = '' }) => [severity, part, message, fix]),
    notes: [
      ...(shown.length === 0 ? [] : ['']),
      amiss === 0
        ? `Nothing is amiss: ${count('ok')} things are well.`
        : `${count('problem')} problems, ${count('warning')} warnings; ${count('ok')} things are well.`,
    ],
  }
}
