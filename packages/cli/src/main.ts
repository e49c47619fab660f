#!/usr/bin/env node
/** The `static` command. */
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import packageJson from '../package.json' with { type: 'json' }
import { adminCommand } from './commands/admin.ts'
import { apiCommand } from './commands/api.ts'
import { proxyCommand } from './commands/proxy.ts'
import { relayCommand } from './commands/relay.ts'
import { upCommand } from './commands/up.ts'

const program = new Command('static')
  .description('Private channels for software agents.')
  .version(packageJson.version)
  .showHelpAfterError('(add --help for the options)')
  .addCommand(upCommand())
  .addCommand(apiCommand())
  .addCommand(relayCommand())
  .addCommand(proxyCommand())
  .addCommand(adminCommand())
  .addHelpText('after', '\nExit codes: 0 done, 1 it could not be done, 2 the command was not understood.')
  .exitOverride((error) => {
    // The library says 1 for a usage error; scripts want to tell it from a failure.
    process.exit(error.exitCode === 0 ? 0 : 2)
  })
for (const command of program.commands) inheritExit(command)

try {
  await program.parseAsync()
} catch (error) {
  // What is not an error of ours is a bug, or a system call that failed: its words are all there is.
  const words = error instanceof Error && !(error instanceof StaticError) ? ` (${error.message})` : ''
  process.stderr.write(`static: ${StaticError.from(error).message}${words}\n`)
  process.exitCode = 1
}

function inheritExit(command: Command): void {
  command.copyInheritedSettings(command.parent ?? program)
  for (const child of command.commands) inheritExit(child)
}
