/** `static admin audit`: the events of accounts. */
import { Command } from 'commander'
import type { AuditedEvent } from '@static/protocol'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, shortTime, table } from '../../terminal/output.ts'
import { pageSize } from './accounts.ts'
import { addDatabaseFlags, type DatabaseFlags, withAdmin } from './database.ts'

interface Flags extends DatabaseFlags {
  readonly account?: string
  readonly limit: number
  readonly before?: string
}

export function auditCommand(): Command {
  return addDatabaseFlags(new Command('audit'))
    .description(
      'list account events, newest first: sign-ins, keys, passwords, plans, suspensions, deletions of channels',
    )
    .option('--account <account>', 'only events of this account')
    .option('--limit <count>', 'show at most N events', pageSize, 100)
    .option('--before <event>', 'continue before this event: `next` of the previous page')
    .addHelpText(
      'after',
      examples('static admin audit', 'static admin audit --account 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 --json'),
    )
    .action(audit)
}

async function audit(flags: Flags): Promise<void> {
  const page = await withAdmin(flags, ({ admin }) => admin.audit(flags.account, flags.before, flags.limit))
  if (flags.json) return printJson(page)
  if (page.events.length === 0) return note('no events.')
  const rows = page.events.map((event) => [
    shortTime(event.last_at),
    event.actor,
    event.account_id ?? '',
    event.count === 1 ? event.event : `${event.event} ×${event.count}`,
    detailOf(event),
  ])
  print(table(['TIME', 'ACTOR', 'ACCOUNT', 'EVENT', 'DETAIL'], rows))
  if (page.next !== null) note(`there are more; continue with --before ${page.next}`)
}

function detailOf({ key_id: key, invite_id: invite, plan, channel, address }: AuditedEvent): string {
  return [
    key === null ? '' : `key ${key}`,
    invite === null ? '' : `invite ${invite}`,
    plan ?? '',
    channel ?? '',
    address === null ? '' : `from ${address}`,
  ]
    .filter((part) => part !== '')
    .join(', ')
}
