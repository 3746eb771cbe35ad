import type { DoctorFinding } from '../../../shared/protocol/doctor.ts'

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
