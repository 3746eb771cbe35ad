import type { Command } from 'commander'
import type { Io } from '../io.ts'
import { addDoctorCommand } from './doctor.ts'
import { addExplainCommand } from './explain.ts'
import { addExportCommand } from './export.ts'
import { addImportCommand } from './import.ts'
import { addSimulateCommand } from './simulate.ts'

/** Adds the commands that work on policies as a whole and on an installation as a whole. */
export function addToolCommands(
  program: Command,
  io: Io,
  setExitCode: (code: number) => void,
): void {
  addImportCommand(program, io, setExitCode)
  addExportCommand(program, io, setExitCode)
  addExplainCommand(program, io)
  addSimulateCommand(program, io)
  addDoctorCommand(program, io, setExitCode)
}
