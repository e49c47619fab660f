/** Invite links: what is read, and how everything else is refused. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { newAuthority } from '@static/testkit/certificates'
import { type ChannelName, StaticError } from '@static/protocol'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import { encodeLink, isInviteLink, type LinkParts, parseInviteLink } from '../../src/admitting/link.ts'
import { encodeToken } from '../../src/admitting/token.ts'

const PREFIX = 'static://'
const DAMAGED = 'The invite link is damaged or incomplete. Copy all of it again.'
const token = (relay: string): string =>
  encodeToken({
    admit: 'owner',
    expiresAt: 1_790_000_000_123,
    secret: new Uint8Array(32).fill(1),
    owner: new Uint8Array(32).fill(2),
    channelId: new Uint8Array(16).fill(3),
    name: 'acme/support/routing' as ChannelName,
    relay,
  })
const PARTS: LinkParts = {
  endpoint: parseEndpoint('quic://relay.example'),
  grpcPort: 5443,
  relayId: new Uint8Array(32).fill(4),
  ca: undefined,
  token: token('relay.example'),
}
const LINK = encodeLink(PARTS)

/** The message of the refusal. */
function refusal(text: string): string {
  try {
    parseInviteLink(text)
  } catch (error) {
    assert.ok(error instanceof StaticError, String(error))
    assert.equal(error.code, 'invite_invalid')
    return error.message
  }
  return 'read'
}

/** A link with this body and the right checksum. */
function sealed(body: Uint8Array): string {
  const sum = hash('sha256', Buffer.concat([Buffer.from('static link 1'), body]), 'buffer').subarray(0, 4)
  return `${PREFIX}${Buffer.concat([body, sum]).toString('base64url')}`
}

const body = (link = LINK): Buffer => Buffer.from(link.slice(PREFIX.length), 'base64url').subarray(0, -4)

test('a link returns what was put into it, certificates included', async () => {
  const [one, two] = [(await newAuthority()).cert, (await newAuthority()).cert]
  const ip = parseEndpoint('https://[2001:db8::1]:443', { relayName: 'relay.example' })
  const read = parseInviteLink(` ${encodeLink({ ...PARTS, endpoint: ip, grpcPort: 0, ca: one + two })}\n`)
  assert.deepEqual([read.endpoint, read.relayName, read.grpcPort], [ip.url, 'relay.example', undefined])
  assert.equal(read.ca, one + two)
  assert.ok(isInviteLink(LINK) && !isInviteLink(PARTS.token))
})

test('a link with any character changed, missing or added is damaged', () => {
  for (let at = PREFIX.length; at < LINK.length; at++) {
    const other = LINK[at] === 'A' ? 'B' : 'A'
    assert.equal(refusal(LINK.slice(0, at) + other + LINK.slice(at + 1)), DAMAGED, `changed at ${at}`)
    assert.equal(refusal(LINK.slice(0, at)), DAMAGED, `cut at ${at}`)
  }
  for (const more of ['A', '=', ' A', '%']) assert.equal(refusal(LINK + more), DAMAGED)
})

test('a link of a newer version says so; a token or an address is no link', () => {
  const newer = body()
  newer[0] = 2
  assert.equal(
    refusal(sealed(newer)),
    'The invite link has version 2, and this program reads version 1. Update Static.',
  )
  for (const text of [PARTS.token, 'https://relay.example', '', 'STATIC://AAAA'])
    assert.match(refusal(text), /^This is not an invite link/)
  assert.match(refusal(undefined as unknown as string), /^This is not an invite link/)
})

test('a body that no honest agent writes counts as damaged, even with the right checksum', () => {
  const changed = (at: number, ...bytes: number[]): string => {
    const altered = body()
    altered.set(bytes, at)
    return sealed(altered)
  }
  const hostAt = 8
  const countAt = hostAt + 'relay.example'.length + 32
  assert.equal(refusal(changed(0, 1)), 'read')
  assert.equal(refusal(changed(1, 2)), DAMAGED, 'a way that there is not')
  for (const count of [0, 2, 9, 255]) assert.equal(refusal(changed(4, count)), DAMAGED, `${count} addresses`)
  assert.equal(refusal(changed(5, 0, 0)), DAMAGED, 'port 0')
  assert.equal(refusal(changed(hostAt, 0x52)), DAMAGED, 'a host in another spelling')
  assert.equal(refusal(changed(hostAt, 0x78)), 'read', 'a host of any name: the certificate has that of the relay')
  assert.equal(refusal(changed(hostAt, 0x40)), DAMAGED, 'an invalid host')
  assert.equal(refusal(changed(hostAt - 1, 255)), DAMAGED, 'a length beyond the end')
  for (const count of [1, 4, 5, 255]) assert.equal(refusal(changed(countAt, count)), DAMAGED, `${count} certificates`)
  assert.equal(refusal(sealed(Buffer.concat([body(), Buffer.of(0)]))), DAMAGED, 'bytes after the token')
  assert.equal(refusal(sealed(body().subarray(0, 1))), DAMAGED, 'a version alone')
  assert.equal(refusal(`${PREFIX}${'A'.repeat(20_000)}`), DAMAGED, 'too long')
})

test('too many certificates for a link are refused when it is made', async () => {
  const { cert } = await newAuthority()
  const make = (ca: string) => () => encodeLink({ ...PARTS, ca })
  assert.throws(make(cert.repeat(5)), /The CA does not fit into an invite link: 5 certificates\./)
  parseInviteLink(make(cert.repeat(4))())
})
