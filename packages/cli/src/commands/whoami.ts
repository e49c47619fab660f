/** `static whoami`: the account, and where its API key comes from. */
import { Command } from 'commander'
import type { Account } from '@static/protocol'
import { namedAccounts } from '@static/sdk/account'
import { accountOf, addAccountFlags, type AccountFlags, keyOf, relayOf } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import { defaultIdentity } from '../agent/identity.ts'
import { examples } from '../terminal/examples.ts'
import { facts, print, printJson, shortTime } from '../terminal/output.ts'

export function whoamiCommand(): Command {
  return addAccountFlags(new Command('whoami'))
    .addHelpText('after', examples('static whoami', 'static whoami --json'))
    .action(whoami)
}

async function whoami(flags: AccountFlags): Promise<void> {
  const account = accountOf(flags)
  const apiKey = keyOf(account)
  const { body } = await requestApi<Account>(account, {
    method: 'GET',
    path: '/v1/accounts/me',
    apiKey,
    doing: 'Fetching the account',
  })
  const where = {
    key_prefix: apiKey.slice(0, 16),
    key_from: flags.apiKey ? 'flag' : process.env['STATIC_API_KEY'] ? 'environment' : 'file',
    api_url: account.apiUrl,
    relay: (await relayOf(account).catch(() => undefined))?.endpoint ?? null,
    identity: defaultIdentity(),
    saved_as: account.places.account ?? null,
    accounts: namedAccounts(),
  }
  if (flags.json) return printJson({ ...body, ...where })
  const others = where.accounts.filter((name) => name !== where.saved_as)
  const from = { flag: '--api-key', environment: 'STATIC_API_KEY', file: account.places.credentials }[where.key_from]
  print(
    facts([
      ['account', body.id],
      ...(where.saved_as === null ? [] : [['saved as', where.saved_as] as const]),
      ['e-mail', body.email],
      ...(body.name === null ? [] : [['name', body.name] as const]),
      ['plan', `${body.plan}, ${body.status}, since ${shortTime(body.created_at)}`],
      ['key', `${where.key_prefix}… (${from})`],
      ['API', where.api_url],
      ['relay', where.relay ?? 'none is announced: pass --relay to `static login`'],
      ['agent', `${where.identity} (change it with --as)`],
      ...(others.length === 0 ? [] : [['others', `${others.join(', ')} (choose one with --account)`] as const]),
    ]),
  )
}
