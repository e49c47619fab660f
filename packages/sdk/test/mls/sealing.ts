/** Seals the Welcomes that tests make by the library alone, as an honest member seals them. */
import type { Welcome } from 'ts-mls'
import { sha256 } from '../../src/mls/hash.ts'
import { type InviteSeal, sealWelcome } from '../../src/mls/sealed-welcome.ts'
import { CHANNEL_EXTENSIONS } from '../../src/mls/ts-mls/config.ts'
import { checkKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { encodeGroupInfo, encodeSecrets } from '../../src/mls/ts-mls/message.ts'
import { crypto } from './attacker.ts'
import { hex } from './support.ts'

/** The Welcome for the agent of a KeyPackage. */
export async function sealedFor(keyPackage: Uint8Array, welcome: Welcome, invite?: InviteSeal): Promise<Uint8Array> {
  const { recipient } = await checkKeyPackage(crypto, keyPackage, CHANNEL_EXTENSIONS, Date.now())
  const secrets = welcome.secrets.filter(({ newMember }) => hex(newMember) === hex(recipient.ref))
  const groupInfo = encodeGroupInfo(welcome)
  const ownPart = encodeSecrets({ ...welcome, secrets })
  return Buffer.concat([sealWelcome(ownPart, sha256(groupInfo), recipient, invite), groupInfo])
}
