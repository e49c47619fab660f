/** `static admin accounts invite [list|revoke]`: invites for signing up. */
import { Argument, Command, InvalidArgumentError } from 'commander'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, shortTime, table } from '../../terminal/output.ts'
import { addDatabaseFlags, type DatabaseFlags, withAdmin } from './database.ts'
import { addExpiry, type LinkFlags, untilOf } from './expiry.ts'

const EXAMPLE = '4nZq0RtYx2'
/** The maximum number listed. */
const MOST_LISTED = 1000

export function inviteCommand(): Command {
  return addExpiry(addDatabaseFlags(new Command('invite')))
    .description('print an invite with which one person can sign up (for servers that run with --signup invite)')
    .enablePositionalOptions()
    .addCommand(listCommand())
    .addCommand(revokeCommand())
    .addHelpText(
      'after',
      examples(
        'static admin accounts invite',
        'static admin accounts invite --expires 72 --json',
        'static admin accounts invite list',
      ),
    )
    .action(invite)
}

function listCommand(): Command {
  return addDatabaseFlags(new Command('list'))
    .description('list the invites that can still be used, the next to expire first')
    .addHelpText('after', examples('static admin accounts invite list'))
    .action(async (flags: DatabaseFlags) => {
      const invites = await withAdmin(flags, ({ admin }) => admin.invites(MOST_LISTED))
      if (flags.json) return printJson({ invites })
      if (invites.length === 0) return note('there are no sign-up invites.')
      const rows = invites.map(({ id, created_at: made, expires_at: end }) => [id, shortTime(made), shortTime(end)])
      print(table(['INVITE', 'CREATED', 'EXPIRES'], rows))
    })
}

function revokeCommand(): Command {
  return addDatabaseFlags(new Command('revoke'))
    .description('revoke an unused invite')
    .addArgument(
      new Argument('<invite>', 'id of the invite, from `static admin accounts invite list`').argParser(inviteId),
    )
    .addHelpText('after', examples(`static admin accounts invite revoke ${EXAMPLE}`))
    .action(async (id: string, flags: DatabaseFlags) => {
      await withAdmin(flags, ({ admin }) => admin.revokeInvite(id))
      if (flags.json) printJson({ id, revoked: true })
      else print(`Revoked invite ${id}.`)
    })
}

/** Does not accept a whole invite, because other users of the machine could read it in the process list. */
function inviteId(text: string): string {
  if (/^[0-9A-Za-z]{10}$/.test(text)) return text
  throw new InvalidArgumentError('Expected 10 letters and digits. `static admin accounts invite list` shows the ids.')
}

async function invite(flags: LinkFlags): Promise<void> {
  const { made, link } = await withAdmin(flags, async ({ admin, apiUrl }) => {
    const invited = await admin.invite(flags.expires)
    return { made: invited, link: `${apiUrl}/console#/sign-up/${invited.token}` }
  })
  if (flags.json) return printJson({ ...made, link })
  print(link)
  note(`it creates one account, in a browser or with \`static signup --invite LINK\`: ${untilOf(made.expires_at)}.`)
}
