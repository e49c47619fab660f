/** Commands that change one account: they show it, ask for confirmation, and show the result. */
import { Argument, type Command } from 'commander'
import type { Account } from '@static/protocol'
import { confirm } from '../../terminal/ask.ts'
import { print, printable, printJson } from '../../terminal/output.ts'
import { type AdminAccess, type DatabaseFlags, withAdmin } from './database.ts'

/** Flags of every command that changes an account. */
export interface ChangeFlags extends DatabaseFlags {
  readonly yes?: boolean
}

/** The account that a command changes. */
export function accountArgument(): Argument {
  return new Argument('<account>', 'account id, from `static admin accounts find` (e-mail addresses are not verified)')
}

/** Adds the flag that skips the question. */
export function addYesFlag(command: Command): Command {
  return command.option('--yes', 'skip the confirmation prompt')
}

/** Shows the account, asks for confirmation, applies the change and shows the account again. */
export async function changeAccount(
  id: string,
  flags: ChangeFlags,
  done: string,
  apply: (admin: AdminAccess['admin']) => Promise<void>,
): Promise<void> {
  await withAdmin(flags, async ({ admin }) => {
    const account = await admin.inspect(id)
    if (!flags.yes) await confirm(`${describe(account)}\nThis account will be ${done}. Continue?`)
    await apply(admin)
    const changed = await admin.inspect(id)
    if (flags.json) printJson(changed)
    else print(describe(changed))
  })
}

/** An account in one line. */
export function describe({ id, email, name, plan, status }: Account): string {
  return printable(`${id}  ${email}${name === null ? '' : ` (${name})`}  plan ${plan}, ${status}`)
}
