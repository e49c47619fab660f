/** `static admin accounts`: list, find, create, invite, reset-password, close. */
import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import { ACCOUNT_STATUSES, type AccountStatus } from '@static/protocol'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printable, printJson, shortTime, table } from '../../terminal/output.ts'
import { roomsOf } from '../../server/relay-control.ts'
import { accountArgument, addYesFlag, changeAccount, type ChangeFlags, describe } from './change.ts'
import { addDatabaseFlags, type DatabaseFlags, withAdmin } from './database.ts'
import { addExpiry, type LinkFlags, untilOf } from './expiry.ts'
import { inviteCommand } from './invite.ts'

const EXAMPLE = '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'

interface ListFlags extends DatabaseFlags {
  readonly status?: AccountStatus
  readonly limit: number
  readonly after?: string
}

export function accountsCommand(): Command {
  return new Command('accounts')
    .description('list, find, create and close accounts; links for sign-up and passwords')
    .addCommand(listCommand())
    .addCommand(findCommand())
    .addCommand(createCommand())
    .addCommand(inviteCommand())
    .addCommand(resetCommand())
    .addCommand(
      addYesFlag(addDatabaseFlags(new Command('close')))
        .description('close an account: revokes its keys, ends its sessions and erases personal data, permanently')
        .addArgument(accountArgument())
        .addHelpText('after', examples(`static admin accounts close ${EXAMPLE}`))
        .action((id: string, flags: ChangeFlags) =>
          changeAccount(id, flags, 'closed, permanently', (admin) => admin.close(id)),
        ),
    )
    .addHelpText('after', examples('static admin accounts list', 'static admin accounts create ann@example.com'))
}

function listCommand(): Command {
  return addPageFlags(addDatabaseFlags(new Command('list')))
    .description('list accounts, oldest first, with the channels and bytes that they keep at the relay running here')
    .addOption(new Option('--status <status>', 'only accounts with this status').choices(ACCOUNT_STATUSES))
    .addHelpText(
      'after',
      examples('static admin accounts list', 'static admin accounts list --status suspended --json'),
    )
    .action((flags: ListFlags) => list(undefined, flags))
}

function findCommand(): Command {
  return addPageFlags(addDatabaseFlags(new Command('find')))
    .description('find accounts by a part of the e-mail address or name, or by id')
    .addArgument(new Argument('<text>', 'text to search for; case is ignored'))
    .addHelpText(
      'after',
      examples('static admin accounts find ann@example.com', 'static admin accounts find @example.com'),
    )
    .action(list)
}

function createCommand(): Command {
  return addExpiry(addDatabaseFlags(new Command('create')))
    .description('create an account and print the one-time link with which its user sets a password')
    .addArgument(new Argument('<email>', 'e-mail address of the user'))
    .option('--name <name>', 'name of the account')
    .addHelpText('after', examples('static admin accounts create ann@example.com --name Ann'))
    .action(create)
}

function resetCommand(): Command {
  return addYesFlag(addExpiry(addDatabaseFlags(new Command('reset-password'))))
    .description('print a one-time link with which the user sets a new password; an earlier link stops working')
    .addArgument(accountArgument())
    .addHelpText('after', examples(`static admin accounts reset-password ${EXAMPLE}`))
    .action(resetPassword)
}

function addPageFlags(command: Command): Command {
  return command
    .option('--limit <count>', 'show at most N accounts', pageSize, 100)
    .option('--after <account>', 'continue after this account: `next` of the previous page')
}

/** Parses the size of a page. */
export function pageSize(text: string): number {
  const size = Number(text)
  if (!/^\d{1,4}$/.test(text) || size < 1 || size > 1000)
    throw new InvalidArgumentError('Expected a number from 1 to 1000.')
  return size
}

async function list(text: string | undefined, flags: ListFlags): Promise<void> {
  const { status, limit, after, dataDir } = flags
  const page = await withAdmin(flags, ({ admin }) => admin.list({ text, status, limit, after }))
  const ids = page.accounts.map(({ id }) => id)
  const rooms = await roomsOf(dataDir, ids)
  const accounts = page.accounts.map((account, at) => {
    const { channels = null, bytes = null } = rooms?.[at] ?? {}
    return { ...account, channels, bytes }
  })
  if (flags.json) return printJson({ ...page, accounts })
  if (accounts.length === 0) return note('no such account.')
  const rows = accounts.map(({ id, email, name, plan, status: state, created_at: made, channels, bytes }) => [
    id,
    email,
    plan,
    state,
    String(channels ?? '-'),
    String(bytes ?? '-'),
    shortTime(made),
    name ?? '',
  ])
  print(table(['ID', 'E-MAIL', 'PLAN', 'STATUS', 'CHANNELS', 'BYTES', 'CREATED', 'NAME'], rows))
  if (rooms === undefined)
    note(`no relay runs on ${dataDir}, so channels and bytes are unknown: run this where the relay does.`)
  if (page.next !== null) note(`there are more; continue with --after ${page.next}`)
}

async function create(email: string, flags: LinkFlags & { readonly name?: string }): Promise<void> {
  const { made, link } = await withAdmin(flags, async ({ admin, apiUrl }) => {
    const account = await admin.create(email, flags.name, flags.expires)
    return { made: account, link: passwordLink(apiUrl, account.token) }
  })
  if (flags.json) return printJson({ ...made, link })
  print(link)
  note(`created ${printable(email)}, account ${made.id}. Give the link to its user: ${untilOf(made.expires_at)}.`)
}

async function resetPassword(id: string, flags: LinkFlags & ChangeFlags): Promise<void> {
  const { made, link } = await withAdmin(flags, async ({ admin, apiUrl }) => {
    const account = await admin.inspect(id)
    if (!flags.yes) await confirm(`${describe(account)}\nWhoever gets the link can take this account over. Continue?`)
    const reset = await admin.passwordLink(id, flags.expires)
    return { made: reset, link: passwordLink(apiUrl, reset.token) }
  })
  if (flags.json) return printJson({ ...made, link })
  print(link)
  note(`give the link to the account's user only: ${untilOf(made.expires_at)}. The old password works until then.`)
}

/** The token is in the fragment, which browsers never send. */
function passwordLink(apiUrl: string, token: string): string {
  return `${apiUrl}/console#/set-password/${token}`
}
