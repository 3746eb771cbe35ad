import { Command, CommanderError } from 'commander'
import { PACKAGE_VERSION } from '../../shared/runtime/assets.ts'
import { useCertificates } from './certificates.ts'
import { addAdminCommand } from './commands/admin.ts'
import { addApplyCommands } from './commands/apply.ts'
import { addAuditCommand } from './commands/audit.ts'
import { addCheckCommand } from './commands/check.ts'
import { withExamples } from './commands/common.ts'
import { addCompletionCommand } from './commands/completion.ts'
import { addContextCommand } from './commands/context.ts'
import { addDebugCommand } from './commands/debug.ts'
import { addDemoCommand } from './commands/demo.ts'
import { addDomainCommand } from './commands/domain.ts'
import { addEmergencyCommands } from './commands/emergency.ts'
import { addKeysCommand } from './commands/keys.ts'
import { addOverrideCommand } from './commands/override.ts'
import { addPolicyCommand } from './commands/policy.ts'
import { addRegionCommand } from './commands/region.ts'
import { addRevisionCommands } from './commands/revision.ts'
import { addRolloutCommand } from './commands/rollout.ts'
import { addSharesCommand } from './commands/shares.ts'
import { addTokenCommand } from './commands/token.ts'
import { addToolCommands } from './commands/tools.ts'
import { addUpCommand } from './commands/up.ts'
import { addUsageCommand } from './commands/usage.ts'
import { CliError, EXIT } from './errors.ts'
import { addHelp } from './help.ts'
import { type Io, say } from './io.ts'
import { visible } from './table.ts'

/** Runs one command line and resolves with the exit code; every failure is told on `io.err`. */
export async function runProgram(args: readonly string[], io: Io): Promise<number> {
  let exitCode: number = EXIT.ok
  const program = buildProgram(io, (code) => {
    exitCode = code
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
    return exitCode
  } catch (err) {
    return exitCodeOf(err, io)
  }
}

function buildProgram(io: Io, setExitCode: (code: number) => void): Command {
  const program = new Command('quotaplane')
    .description('Global rate limits held by several regions, never exceeded.')
    .configureOutput({
      writeOut: (text) => io.out.write(text),
      writeErr: (text) => io.err.write(text),
    })
    .version(PACKAGE_VERSION)
    // What follows a command is the command's, also where one above it has a flag of the same name.
    .enablePositionalOptions()
    .exitOverride()
    .hook('preAction', () => useCertificates(io.env))
    .showHelpAfterError('(add --help for what is possible)')
  addUpCommand(program, io)
  addDemoCommand(program, io)
  addDomainCommand(program, io)
  addPolicyCommand(program, io)
  addOverrideCommand(program, io)
  addApplyCommands(program, io, setExitCode)
  addRevisionCommands(program, io, setExitCode)
  addToolCommands(program, io, setExitCode)
  addCheckCommand(program, io, setExitCode)
  addDebugCommand(program, io)
  addSharesCommand(program, io)
  addUsageCommand(program, io)
  addRegionCommand(program, io)
  addRolloutCommand(program, io, setExitCode)
  addEmergencyCommands(program, io)
  addTokenCommand(program, io)
  addAuditCommand(program, io)
  addAdminCommand(program, io)
  addKeysCommand(program, io)
  addContextCommand(program, io)
  addHelp(program, io)
  addCompletionCommand(program, io)
  withExamples(program, [
    'quotaplane up',
    'quotaplane policy apply -f limits.yaml',
    'quotaplane check --domain api tenant=acme',
    'quotaplane shares --watch',
  ])
  return program
}

function exitCodeOf(err: unknown, io: Io): number {
  if (err instanceof CommanderError) {
    // Commander has written its message; help and version are no failure.
    return err.exitCode === 0 ? EXIT.ok : EXIT.usage
  }
  if (io.signal.aborted) return EXIT.failure
  const message = err instanceof Error ? err.message : String(err)
  say(io.err, `quotaplane: ${message.split('\n').map(visible).join('\n')}`)
  return err instanceof CliError ? err.exitCode : EXIT.failure
}
