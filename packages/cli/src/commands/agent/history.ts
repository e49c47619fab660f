/** `static agent history`: whether an agent keeps a history, and for how many days. */
import { Command, InvalidArgumentError } from 'commander'
import { withHistory } from '../../agent/history.ts'
import { addKeyFlags, type KeyFlags } from '../../agent/key.ts'
import { addPlaceFlags, agentPlace, type PlaceFlags } from '../../agent/place.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'

interface Flags extends PlaceFlags, KeyFlags {
  readonly days?: number | 'off'
  readonly yes?: boolean
  readonly json?: boolean
}

const MOST_DAYS = 365

export function historyCommand(): Command {
  return addPlaceFlags(
    addKeyFlags(
      new Command('history')
        .description('show or change for how many days the agent keeps messages; by default it keeps none')
        .option('--days <days>', `keep messages for so many days, 1 to ${MOST_DAYS}; off: none, and erase`, days)
        .option('--yes', 'skip the confirmation prompt of --days off'),
    ),
  )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
With a history, the agent keeps the messages that were read and those that it has sent in its encrypted database, until
they are that old, too many, or erased. Whoever can open the database can read them: without a history, not even the keys
of read messages exist. The agent remembers this, and follows it in every program that opens it. Stop the agent first.
\`static channel history\` shows the messages.
${examples('static agent history --days 30 --as ada', 'static agent history --as ada', 'static agent history --days off --as ada')}`,
    )
    .action(history)
}

async function history(flags: Flags): Promise<void> {
  const { identity } = agentPlace(flags)
  const { days, yes } = flags
  if (days === 'off' && !yes) await confirm(`The history of ${identity} will be erased, in all channels. Continue?`)
  const now = await withHistory(flags, async (stored) => {
    if (days !== undefined) await withProgress('Changing the history', stored.keep(days === 'off' ? false : { days }))
    return stored.days
  })
  if (flags.json) return printJson({ identity, days: now ?? null })
  if (now !== undefined) print(`Agent ${identity} keeps messages for ${now === 1 ? '1 day' : `${now} days`}.`)
  else print(`Agent ${identity} keeps no messages.`)
}

function days(text: string): number | 'off' {
  if (text === 'off') return text
  if (/^[1-9]\d{0,2}$/.test(text) && Number(text) <= MOST_DAYS) return Number(text)
  throw new InvalidArgumentError(`Expected a number of days from 1 to ${MOST_DAYS}, or off.`)
}
