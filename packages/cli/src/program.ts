/** The command tree, and the exit codes of the process. */
import { Command } from 'commander'
import { redactSecrets, StaticError } from '@static/protocol'
import packageJson from '../package.json' with { type: 'json' }
import { GROUPS } from './command-groups.ts'
import { EXIT_CODES, exitCodeOf, Interrupted } from './terminal/exit-codes.ts'
import { commandLine, note, plainJson, readable } from './terminal/output.ts'

/** Server commands need no account and wait for no other server, so all of their failures have exit code 1. */
const SERVERS = ['up', 'api', 'relay', 'proxy', 'admin']
const exitCodes = Object.entries(EXIT_CODES).map(([code, words]) => `  ${code.padEnd(4)} ${words}`)

/** The program with these commands, or with all of them by default. Others are listed, but their code is not loaded. */
export async function makeProgram(names?: readonly string[]): Promise<Command> {
  const program = new Command('static')
  program
    .description('Private channels for software agents.')
    .version(packageJson.version)
    // `channel invite` has flags, and subcommands with flags of the same names.
    .enablePositionalOptions()
    // Usage errors quote the command line.
    .configureOutput({ writeErr: (text) => process.stderr.write(redactSecrets(text)) })
    .showHelpAfterError('(run with --help for usage)')
    .addHelpText(
      'after',
      `
Examples:
  $ static up
  $ static signup
  $ static channel create acme/support/routing
  $ static channel listen acme/support/routing

Settings come from flags, then from the environment (STATIC_API_URL, STATIC_API_KEY, STATIC_RELAY, STATIC_CA,
STATIC_IDENTITY, STATIC_DATA_DIR), then from the file written by \`signup\` and \`login\`. A machine can have several
accounts: --account NAME or STATIC_ACCOUNT chooses one, with its own key and agents. With --json, results go to
stdout as JSON and an error goes to stderr as one JSON document.

Exit codes:
${exitCodes.join('\n')}`,
    )
    .exitOverride((error) => {
      // Commander exits with 1 on a usage error; scripts need to distinguish that from a failure.
      process.exit(error.exitCode === 0 ? 0 : 2)
    })
  for (const { title, commands } of GROUPS) {
    program.commandsGroup(title)
    for (const [name, [description, load]] of Object.entries(commands)) {
      const isLoaded = names?.includes(name) !== false
      const command = isLoaded ? await load(program) : new Command(name)
      if (isLoaded && !SERVERS.includes(name) && name !== 'completion') {
        const { addAccountFlag } = await import('./account/account-flag.ts')
        addAccountFlag(command)
      }
      program.addCommand(command.description(description))
    }
  }
  for (const command of program.commands) inheritExit(command, program)
  // Set last, so that commands do not inherit it. The arguments of commands that are not loaded are unknown.
  return program.configureHelp({ subcommandTerm: (command) => command.name() })
}

/** Runs the command line of this process. */
export async function run(): Promise<void> {
  // The reader of a pipe may close it early (`| head`): not an error.
  process.stdout.on('error', () => {})
  const [name = '', next = ''] = process.argv.slice(2).filter((word) => !word.startsWith('-'))
  // `completion` describes all commands; any other command line names one, possibly after `help`.
  const program = await makeProgram(name === 'completion' ? undefined : [name, next])
  try {
    await program.parseAsync()
  } catch (error) {
    const isServer = SERVERS.includes(program.args[0] ?? '')
    process.exitCode = isServer ? 1 : exitCodeOf(error)
    // Everything is closed. A blocked stdout or a stdin that never ends must not keep the process alive.
    if (error instanceof Interrupted) process.exit()
    printError(error)
    if (!isServer && error instanceof StaticError) hint(error)
    process.stdin.destroy()
  }
}

function printError(error: unknown): void {
  const { code, message } = StaticError.from(error)
  // Any other error is a bug or a failed system call: its message is all the information there is.
  const words = error instanceof Error && !(error instanceof StaticError) ? ` (${error.message})` : ''
  process.stderr.write(
    process.argv.includes('--json')
      ? `${redactSecrets(plainJson({ error: { code, message: `${message}${words}` } }))}\n`
      : `static: ${readable(`${message}${words}`)}\n`,
  )
}

/** Suggests a command that helps after an error, if there is one. */
function hint({ code }: StaticError): void {
  // With --json, an error is one document.
  if (process.argv.includes('--json')) return
  // A connection can fail for many reasons, which one command can tell apart.
  if (code === 'connection_error') note(`\`${commandLine('doctor')}\` says what to check, and how to fix it.`)
  if (code === 'fork_detected') {
    const [verify, accept] = ['verify', 'accept-fork'].map((verb) => commandLine(`channel ${verb}`))
    note(`\`${verify}\` prints the words, and \`${accept}\` accepts the fork.`)
  }
}

function inheritExit(command: Command, program: Command): void {
  command.copyInheritedSettings(command.parent ?? program)
  for (const child of command.commands) inheritExit(child, program)
}
