/** `static usage`: messages sent this month, against the limit of the plan. */
import { Command, InvalidArgumentError } from 'commander'
import type { Usage } from '@static/protocol'
import { accountOf, addAccountFlags, type AccountFlags, keyOf } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import { examples } from '../terminal/examples.ts'
import { facts, printable, print, printJson, shortTime, styled } from '../terminal/output.ts'

interface Flags extends AccountFlags {
  readonly days: number
}

const BAR = 30
const MOST_DAYS = 366

export function usageCommand(): Command {
  return addAccountFlags(new Command('usage').option('--days <count>', 'number of days to list', dayCount, 7))
    .addHelpText('after', examples('static usage', 'static usage --days 30 --json'))
    .action(usage)
}

async function usage(flags: Flags): Promise<void> {
  const account = accountOf(flags)
  const { body } = await requestApi<Usage>(account, {
    method: 'GET',
    path: `/v1/usage?days=${flags.days}`,
    apiKey: keyOf(account),
    doing: 'Fetching usage',
  })
  if (flags.json) return printJson(body)
  const { messages, plan, mode, resets_at: resets, token_exchanges: exchanges, daily } = body
  const { used, reserved, limit, remaining } = messages
  print(
    facts([
      ['plan', `${plan} (${mode})`],
      ['messages', limit === null ? `${number(used)}, unlimited` : `${number(used)} of ${number(limit)}`],
      ...(reserved === 0
        ? []
        : [['reserved', `${number(reserved)} by relays, which return what they do not use`] as const]),
      ...(remaining === null ? [] : [['remaining', number(remaining)] as const]),
      ['resets', shortTime(resets)],
      ['tokens', number(exchanges)],
    ]),
  )
  const most = Math.max(1, ...daily.map(({ messages: count }) => count))
  for (const { date, messages: count } of daily) {
    print(
      `${printable(date)}  ${styled('cyan', '▇'.repeat(Math.ceil((count / most) * BAR)))} ${printable(number(count))}`,
    )
  }
}

function number(count: number): string {
  return count.toLocaleString('en')
}

function dayCount(text: string): number {
  const days = Number(text)
  if (!/^\d{1,3}$/.test(text) || days < 1 || days > MOST_DAYS) {
    throw new InvalidArgumentError(`Expected a number from 1 to ${MOST_DAYS}.`)
  }
  return days
}
