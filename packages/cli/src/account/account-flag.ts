/** `--account`: the account on this machine that a command is for, with its key and its agents. */
import { type Command, InvalidArgumentError } from 'commander'
import { StaticError } from '@static/protocol'
import { checkAccount, checkAccountName, OPTIONS, userPlaces } from '@static/sdk/account'
import { nameAccountInHints } from '../terminal/output.ts'
import { clientFlag } from './client-flag.ts'

/** Commands that add an account to this machine. Others refuse a name that none has. */
const ADDING = ['signup', 'login']

/** Adds the flag to a command, or to those below it. */
export function addAccountFlag(command: Command): void {
  for (const child of command.commands) addAccountFlag(child)
  // A command that only groups others does nothing itself.
  if (command.commands.length > 0 && command.registeredArguments.length === 0) return
  command
    .addOption(
      clientFlag('account', '--account <name>', 'account on this machine', 'the one without a name').argParser(nameOf),
    )
    .hook('preAction', (_, acting) => {
      if (acting === command) choose(command)
    })
}

function nameOf(text: string): string {
  try {
    return checkAccountName(text)
  } catch (error) {
    throw new InvalidArgumentError(StaticError.from(error).message)
  }
}

/**
 * Everything after this is about the chosen account, programs that the command starts included. The variables of
 * another account would mix the two.
 */
function choose(command: Command): void {
  const { account } = command.opts<{ readonly account?: string }>()
  if (account !== undefined) {
    process.env['STATIC_ACCOUNT'] = account
    nameAccountInHints(account)
  }
  if (!process.env['STATIC_ACCOUNT']) return
  for (const { variable, file } of Object.values(OPTIONS)) if (variable && file) delete process.env[variable]
  if (!ADDING.includes(command.name())) checkAccount(userPlaces())
}
