/** The commands, and how they end. */
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import packageJson from '../package.json' with { type: 'json' }
import { adminCommand } from './commands/admin.ts'
import { agentCommand } from './commands/agent.ts'
import { apiCommand } from './commands/api.ts'
import { channelCommand } from './commands/channel.ts'
import { completionCommand } from './commands/completion.ts'
import { consoleCommand } from './commands/console.ts'
import { doctorCommand } from './commands/doctor.ts'
import { keysCommand } from './commands/keys.ts'
import { loginCommand } from './commands/login.ts'
import { logoutCommand } from './commands/logout.ts'
import { proxyCommand } from './commands/proxy.ts'
import { relayCommand } from './commands/relay.ts'
import { signupCommand } from './commands/signup.ts'
import { tokenCommand } from './commands/token.ts'
import { upCommand } from './commands/up.ts'
import { usageCommand } from './commands/usage.ts'
import { whoamiCommand } from './commands/whoami.ts'
import { EXIT_CODES, exitCodeOf, Interrupted } from './terminal/exit-codes.ts'
import { printable } from './terminal/output.ts'

/** Who runs a server is neither signed in nor waits for another one: what fails there could not be done. */
const SERVERS = ['up', 'api', 'relay', 'proxy', 'admin']
const exitCodes = Object.entries(EXIT_CODES).map(([code, words]) => `  ${code.padEnd(4)} ${words}`)

/** All commands. */
export function makeProgram(): Command {
  const program = new Command('static')
  program
    .description('Private channels for software agents.')
    .version(packageJson.version)
    .showHelpAfterError('(add --help for the options)')
    .commandsGroup('Servers:')
    .addCommand(upCommand())
    .addCommand(apiCommand())
    .addCommand(relayCommand())
    .addCommand(proxyCommand())
    .addCommand(adminCommand())
    .commandsGroup('Account:')
    .addCommand(signupCommand())
    .addCommand(loginCommand())
    .addCommand(logoutCommand())
    .addCommand(whoamiCommand())
    .addCommand(keysCommand())
    .addCommand(tokenCommand())
    .addCommand(usageCommand())
    .addCommand(consoleCommand())
    .commandsGroup('Channels:')
    .addCommand(channelCommand())
    .addCommand(agentCommand())
    .commandsGroup('Help:')
    .addCommand(doctorCommand())
    .addCommand(completionCommand(program))
    .addHelpText(
      'after',
      `
Examples:
  $ static up
  $ static signup
  $ static channel create acme/support/routing
  $ static channel listen acme/support/routing

What is not given by a flag comes from the environment (STATIC_API_URL, STATIC_API_KEY, STATIC_RELAY, STATIC_CA,
STATIC_IDENTITY, STATIC_DATA_DIR), then from the file that \`signup\` and \`login\` write. With --json the answer is one
document on stdout, and an error one on stderr.

Exit codes:
${exitCodes.join('\n')}`,
    )
    .exitOverride((error) => {
      // The library says 1 for a usage error; scripts want to tell it from a failure.
      process.exit(error.exitCode === 0 ? 0 : 2)
    })
  for (const command of program.commands) inheritExit(command, program)
  return program
}

/** Does what the arguments of this process say. */
export async function run(): Promise<void> {
  // Who reads the answer may go before its end: that is nobody's error.
  process.stdout.on('error', () => {})
  const program = makeProgram()
  try {
    await program.parseAsync()
  } catch (error) {
    process.exitCode = SERVERS.includes(program.args[0] ?? '') ? 1 : exitCodeOf(error)
    // All is closed. Whoever does not take our words, or goes on sending us theirs, must not keep the process.
    if (error instanceof Interrupted) process.exit()
    printError(error)
    process.stdin.destroy()
  }
}

function printError(error: unknown): void {
  const { code, message } = StaticError.from(error)
  // What is not an error of ours is a bug, or a system call that failed: its words are all there is.
  const words = error instanceof Error && !(error instanceof StaticError) ? ` (${error.message})` : ''
  process.stderr.write(
    process.argv.includes('--json')
      ? `${JSON.stringify({ error: { code, message: `${message}${words}` } })}\n`
      : `static: ${printable(`${message}${words}`)}\n`,
  )
}

function inheritExit(command: Command, program: Command): void {
  command.copyInheritedSettings(command.parent ?? program)
  for (const child of command.commands) inheritExit(child, program)
}
