/** `static logout`: removes the saved API key. */
import { rm } from 'node:fs/promises'
import { Command } from 'commander'
import type { ListedKey } from '@static/protocol'
import { type AccountSettings, readCredentials } from '@static/sdk/account'
import { accountOf, addApiFlags, type ApiFlags } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import { examples } from '../terminal/examples.ts'
import { note, print, printJson } from '../terminal/output.ts'

interface Flags extends ApiFlags {
  readonly revoke?: boolean
}

export function logoutCommand(): Command {
  return addApiFlags(
    new Command('logout').option('--revoke', 'also revoke the key, so that it stops working everywhere'),
  )
    .addHelpText('after', examples('static logout', 'static logout --revoke'))
    .action(logout)
}

async function logout(flags: Flags): Promise<void> {
  const account = accountOf(flags)
  const { credentials } = account.places
  const { api_key: key } = readCredentials(credentials)
  // Revoke first: if that fails, the key is still here for another try.
  const revoked = flags.revoke === true && key !== undefined
  if (revoked) await revoke(account, key)
  await rm(credentials, { force: true })
  if (flags.json) return printJson({ signed_out: key !== undefined, revoked })
  print(key === undefined ? 'You were not signed in.' : `Signed out. Removed ${credentials}.`)
  if (key !== undefined && !revoked) {
    note(`key ${key.slice(0, 16)}… still works. Revoke it in the console; next time use \`logout --revoke\`.`)
  }
  if (process.env['STATIC_API_KEY']) note('STATIC_API_KEY is still set and still used.')
}

async function revoke(account: AccountSettings, key: string): Promise<void> {
  const { body } = await requestApi<{ keys: readonly ListedKey[] }>(account, {
    method: 'GET',
    path: '/v1/keys',
    apiKey: key,
    doing: 'Finding the key',
  })
  const id = body.keys.find(({ key_prefix: prefix }) => key.startsWith(prefix))?.id ?? ''
  await requestApi(account, {
    method: 'DELETE',
    path: `/v1/keys/${encodeURIComponent(id)}`,
    apiKey: key,
    doing: 'Revoking the key',
  })
}
