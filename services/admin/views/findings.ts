import type { DoctorFinding } from '../../../shared/protocol/doctor.ts'

/** In the order in which nobody is told what he does not know yet (docs/running.md, which a test compares with this). */
export const FINISH_UPGRADE =
  'finish the upgrade: enforcers first, then sync daemons, the admins last'

export function ok(part: string, check: string, message: string): DoctorFinding {
  return { part, check, severity: 'ok', message }
}

/** For information. */
export function note(part: string, check: string, message: string, fix: string): DoctorFinding {
  return { part, check, severity: 'note', message, fix }
}

/** Works, and is for mending. */
export function warning(part: string, check: string, message: string, fix: string): DoctorFinding {
  return { part, check, severity: 'warning', message, fix }
}

/** Does not work as it should. */
export function problem(part: string, check: string, message: string, fix: string): DoctorFinding {
  return { part, check, severity: 'problem', message, fix }
}
