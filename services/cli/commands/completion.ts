import { type Command, InvalidArgumentError } from 'commander'
import type { Io } from '../io.ts'
import { withExamples } from './common.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

/** One command, by the words that lead to it, with what can follow. */
interface Completion {
  /** `policy apply`; empty for the program itself. */
  readonly path: string
  readonly commands: readonly { readonly name: string; readonly description: string }[]
  readonly options: readonly { readonly flag: string; readonly description: string }[]
}

/** Adds `quotaplane completion`. Call it last: it completes what has been added. */
export function addCompletionCommand(program: Command, io: Io): void {
  const command = program
    .command('completion')
    .description('print a script that completes commands and options in your shell')
    .argument('<shell>', SHELLS.join(', '), shellOf)
    .action((shell: Shell) => {
      io.out.write(SCRIPTS[shell](completionsOf(program, '')))
    })
  withExamples(command, [
    'source <(quotaplane completion bash)        # in ~/.bashrc',
    'source <(quotaplane completion zsh)         # in ~/.zshrc, after compinit',
    'quotaplane completion fish > ~/.config/fish/completions/quotaplane.fish',
  ])
}

function shellOf(text: string): Shell {
  const shell = SHELLS.find((known) => known === text)
  if (shell !== undefined) return shell
  throw new InvalidArgumentError(`It must be one of ${SHELLS.join(', ')}.`)
}

function completionsOf(command: Command, path: string): readonly Completion[] {
  const options = command.options
    .map((option) => ({ flag: option.long ?? '', description: option.description }))
    .filter(({ flag }) => flag !== '')
  const own: Completion = {
    path,
    commands: command.commands.map((sub) => ({ name: sub.name(), description: sub.description() })),
    options: [...options, { flag: '--help', description: 'show help' }],
  }
  const below = command.commands.flatMap((sub) =>
    completionsOf(sub, path === '' ? sub.name() : `${path} ${sub.name()}`),
  )
  return [own, ...below]
}

const wordsOf = ({ commands, options }: Completion): string =>
  [...commands.map(({ name }) => name), ...options.map(({ flag }) => flag)].join(' ')

/** Bash takes no empty key. */
const keyOf = ({ path }: Completion): string => `quotaplane ${path}`.trim()

/** The longest path that the typed words begin with says what can follow; both scripts walk it word by word. */
const SCRIPTS: Readonly<Record<Shell, (completions: readonly Completion[]) => string>> = {
  bash: (completions) => `_quotaplane() {
  local path="quotaplane" word
  local -A next=(
${completions.map((one) => `    ["${keyOf(one)}"]="${wordsOf(one)}"`).join('\n')}
  )
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    local longer="$path $word"
    [[ -n "\${next[$longer]+known}" ]] && path="$longer"
  done
  COMPREPLY=($(compgen -W "\${next[$path]}" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _quotaplane quotaplane
`,
  zsh: (completions) => `#compdef quotaplane
_quotaplane() {
  local path_words="quotaplane" word longer
  local -A next=(
${completions.map((one) => `    "${keyOf(one)}" "${wordsOf(one)}"`).join('\n')}
  )
  for word in "\${(@)words[2,CURRENT-1]}"; do
    longer="$path_words $word"
    (( \${+next[$longer]} )) && path_words="$longer"
  done
  compadd -- \${(z)next[$path_words]}
  _files
}
compdef _quotaplane quotaplane
`,
  fish: (completions) => `complete -c quotaplane -f
${completions.flatMap(fishLines).join('\n')}
`,
}

function fishLines({ path, commands, options }: Completion): readonly string[] {
  const words = path.split(' ').filter((word) => word !== '')
  const seen = words.map((word) => `__fish_seen_subcommand_from ${word}`)
  const others = commands.map(({ name }) => name).join(' ')
  const none = others === '' ? [] : [`not __fish_seen_subcommand_from ${others}`]
  const here = [...seen, ...none].join('; and ') || 'true'
  const onlyIf = `-n '${here}'`
  return [
    ...commands.map(
      ({ name, description }) =>
        `complete -c quotaplane ${onlyIf} -a ${name} -d ${quoted(description)}`,
    ),
    ...options.map(
      ({ flag, description }) =>
        `complete -c quotaplane ${onlyIf} -l ${flag.slice(2)} -d ${quoted(description)}`,
    ),
  ]
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
