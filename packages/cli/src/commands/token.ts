/** `static token`: exchanges the API key for a relay access token. */
import { Command } from 'commander'
import type { IssuedToken } from '@static/protocol'
import { accountOf, addAccountFlags, type AccountFlags, keyOf } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import { examples } from '../terminal/examples.ts'
import { printable, note, print, printJson, shortTime } from '../terminal/output.ts'

export function tokenCommand(): Command {
  return addAccountFlags(new Command('token'))
    .addHelpText('after', examples('static token', 'static token --json'))
    .action(token)
}

async function token(flags: AccountFlags): Promise<void> {
  const account = accountOf(flags)
  const { body } = await requestApi<IssuedToken>(account, {
    method: 'POST',
    path: '/v1/tokens',
    apiKey: keyOf(account),
    doing: 'Requesting a token',
  })
  if (flags.json) return printJson(body)
  print(printable(body.token))
  note(`valid until ${shortTime(body.expires_at)}.`)
}
