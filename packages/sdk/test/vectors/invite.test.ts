import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChannelName, fromHex, toHex } from '@static/protocol'
import { openRequest } from '../../src/invite/join-request.ts'
import { admissionProof, inviteKeys, joinTag, welcomeTag } from '../../src/invite/keys.ts'
import { decodeToken, encodeToken } from '../../src/invite/token.ts'
import type { Admit } from '../../src/ports.ts'
import { readVectors } from './own.ts'

interface Invite {
  readonly token: {
    readonly admit: Admit
    readonly expires_at_ms: number
    readonly secret: string
    readonly owner: string
    readonly channel_id: string
    readonly name: ChannelName
    readonly relay: string
    readonly text: string
  }
  readonly keys: Record<'invite_id' | 'admission' | 'members' | 'join' | 'welcome' | 'box', string>
  readonly join: Record<'nonce' | 'key_package' | 'mac' | 'box', string>
  readonly admission: Record<'session_nonce' | 'agent_id' | 'proof', string>
  readonly welcome: Record<'welcome' | 'epoch_authenticator' | 'mac', string>
}

const { token, keys: expected, join, admission, welcome } = readVectors('invite.json') as Invite
const keys = inviteKeys(fromHex(token.secret))
const place = { channelId: fromHex(token.channel_id), name: token.name, owner: fromHex(token.owner) }

test('vectors: an invite token', () => {
  const content = {
    ...place,
    admit: token.admit,
    expiresAt: token.expires_at_ms,
    secret: fromHex(token.secret),
    relay: token.relay,
  }
  assert.equal(encodeToken(content), token.text)
  assert.deepEqual(decodeToken(token.text), content)
})

test("vectors: an invite's keys", () => {
  const { inviteId, ...others } = keys
  const made = { invite_id: inviteId, ...others }
  assert.deepEqual(Object.fromEntries(Object.entries(made).map(([name, key]) => [name, toHex(key)])), expected)
})

test('vectors: a join request, its box and its proof', () => {
  const [nonce, keyPackage, box] = [join.nonce, join.key_package, join.box].map(fromHex) as Uint8Array[] & {
    readonly [at in 0 | 1 | 2]: Uint8Array
  }
  assert.equal(toHex(joinTag(keys, place, nonce, keyPackage)), join.mac)
  assert.deepEqual(openRequest(keys, place, box), { nonce, keyPackage })
  const proof = admissionProof(keys, {
    sessionNonce: fromHex(admission.session_nonce),
    agentId: fromHex(admission.agent_id),
    box,
  })
  assert.equal(toHex(proof), admission.proof)
})

test('vectors: the MAC of a Welcome', () => {
  const tag = welcomeTag(
    keys,
    fromHex(join.key_package),
    fromHex(welcome.welcome),
    fromHex(welcome.epoch_authenticator),
  )
  assert.equal(toHex(tag), welcome.mac)
})
