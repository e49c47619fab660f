import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChannelName, StaticError } from '@static/protocol'
import fc from 'fast-check'
import { SEED } from '@static/testkit/random'
import { decodeToken, encodeToken, type InviteToken } from '../../src/admitting/token.ts'

const PREFIX = 'st_inv_'
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'.split('')

const TOKEN: InviteToken = {
  admit: 'owner',
  expiresAt: 1_790_000_000_123,
  secret: Uint8Array.from({ length: 32 }, (_, at) => at),
  owner: new Uint8Array(32).fill(0xaa),
  channelId: new Uint8Array(16).fill(0xbb),
  name: 'acme/support/routing' as ChannelName,
  relay: 'relay.example',
}
/** Made by another program. */
const WRITTEN =
  'st_inv_AgAAAAGgxFBsew' +
  'ABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq7u7u7u7u7u7u7u7u7u7u7F' +
  'GFjbWUvc3VwcG9ydC9yb3V0aW5nDXJlbGF5LmV4YW1wbGU'

const part = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)
const bytes = (length: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ minLength: length, maxLength: length })
const tokens: fc.Arbitrary<InviteToken> = fc
  .record<InviteToken>(
    {
      admit: fc.constantFrom('owner', 'members'),
      expiresAt: fc.maxSafeNat(),
      secret: bytes(32),
      owner: bytes(32),
      channelId: bytes(16),
      name: fc.tuple(part, part, part).map((parts) => parts.join('/') as ChannelName),
      relay: fc.stringMatching(/^[a-z0-9][a-z0-9.-]{0,252}$/),
      boxKeyHash: bytes(32),
    },
    { noNullPrototype: true, requiredKeys: ['admit', 'expiresAt', 'secret', 'owner', 'channelId', 'name', 'relay'] },
  )
  // Only the owner reads proofs.
  .map((token) => (token.boxKeyHash ? { ...token, admit: 'owner' } : token))

/** What a text says; undefined when it is refused, which it must be with `invite_invalid`. */
function read(text: string): InviteToken | undefined {
  try {
    return decodeToken(text)
  } catch (error) {
    assert.ok(error instanceof StaticError, String(error))
    assert.equal(error.code, 'invite_invalid')
    return undefined
  }
}

/** It is refused, or says something else. */
function differs(altered: string, written: string, what: string): void {
  const found = read(altered)
  if (found) assert.notDeepEqual(found, decodeToken(written), what)
}

test('a token matches its test vector', () => {
  assert.equal(encodeToken(TOKEN), WRITTEN)
  assert.deepEqual(decodeToken(WRITTEN), TOKEN)
})

test('a token survives encoding and decoding, and has exactly one encoding', (t) => {
  t.diagnostic(`seed ${SEED}`)
  fc.assert(
    fc.property(tokens, (token) => {
      const written = encodeToken(token)
      assert.deepEqual(decodeToken(written), token)
      assert.equal(encodeToken(decodeToken(written)), written)
    }),
    { seed: SEED, numRuns: 1000 },
  )
})

test('any single changed, missing or added character is detected', () => {
  const others = [...ALPHABET, '=', '+', '/', ' ', '.', '\0', 'é']
  for (let at = 0; at < WRITTEN.length; at++) {
    const [before, after] = [WRITTEN.slice(0, at), WRITTEN.slice(at + 1)]
    for (const other of others) {
      if (other !== WRITTEN[at]) differs(`${before}${other}${after}`, WRITTEN, `${other} at ${at}`)
      // Spaces around a token are no part of it.
      if (at > 0) differs(`${before}${other}${WRITTEN[at]}${after}`, WRITTEN, `${other} before ${at}`)
    }
    differs(`${before}${after}`, WRITTEN, `without ${at}`)
  }
})

test('the flags byte alone says that members may admit', () => {
  const raw = Buffer.from(WRITTEN.slice(PREFIX.length), 'base64url')
  raw[1] = 1
  assert.deepEqual(read(`${PREFIX}${raw.toString('base64url')}`), { ...TOKEN, admit: 'members' })
})

test('a prefix or an extension of a token is not a token', () => {
  for (let length = 0; length < WRITTEN.length; length++) assert.equal(read(WRITTEN.slice(0, length)), undefined)
  for (const more of [...ALPHABET, '=', '==', 'AA', 'AAA', 'AAAA', WRITTEN, '\nA']) {
    assert.equal(read(`${WRITTEN}${more}`), undefined, more)
  }
})

test('text with another prefix or alphabet is not a token', () => {
  const encoded = WRITTEN.slice(PREFIX.length)
  for (const prefix of ['', 'st_inv', 'ST_INV_', 'st_inv-', 'st_tok_', 'st_inv_st_inv_', 'x']) {
    assert.equal(read(`${prefix}${encoded}`), undefined, prefix)
  }
  const raw = Buffer.from(encoded, 'base64url')
  for (const encoding of ['base64', 'hex', 'latin1'] as const) {
    // Bytes in which base64 and base64url differ.
    const bytes = Buffer.concat([raw.subarray(0, 10), Buffer.alloc(32, 0xfb), raw.subarray(42)])
    assert.ok(read(`${PREFIX}${bytes.toString('base64url')}`))
    assert.equal(read(`${PREFIX}${bytes.toString(encoding)}`), undefined, encoding)
  }
})

test('a value that is not a string is not a token', () => {
  for (const given of [undefined, null, 5, {}, Buffer.from(WRITTEN)]) assert.equal(read(given as string), undefined)
})

test('spaces and line breaks around a token are ignored', () => {
  assert.deepEqual(decodeToken(` \t${WRITTEN}\r\n`), TOKEN)
})

test('malformed bytes are refused, field by field', () => {
  const raw = Buffer.from(WRITTEN.slice(PREFIX.length), 'base64url')
  const nameAt = 90
  assert.equal(raw[nameAt], TOKEN.name.length)
  const relayAt = nameAt + 1 + TOKEN.name.length
  assert.equal(raw[relayAt], TOKEN.relay.length)
  const set = (at: number, ...values: number[]): Buffer => {
    const copy = Buffer.from(raw)
    copy.set(values, at)
    return copy
  }
  const cases: Record<string, Buffer> = {
    'version 0': set(0, 0),
    'version 1': set(0, 1),
    'version 3': set(0, 3),
    'a flag that is not known': set(1, 4),
    'both flags': set(1, 3),
    'no room for the hash of a key': set(1, 2),
    'a time that is no safe number': set(2, 0x00, 0x20),
    'a longer name': set(nameAt, TOKEN.name.length + 1),
    'a shorter name': set(nameAt, TOKEN.name.length - 1),
    'no name': set(nameAt, 0),
    'a name of 255 bytes': set(nameAt, 255),
    'a name in capitals': set(nameAt + 1, 'A'.charCodeAt(0)),
    'a name with a line break': set(nameAt + 1, 10),
    'a longer relay name': set(relayAt, TOKEN.relay.length + 1),
    'a shorter relay name': set(relayAt, TOKEN.relay.length - 1),
    'a relay name of 254 bytes': Buffer.concat([raw.subarray(0, relayAt), Buffer.alloc(255, 254)]),
    'a relay name with a control character': set(relayAt + 1, 0x1b),
    'a relay name with a space': set(relayAt + 1, 0x20),
    'nothing after the name': raw.subarray(0, relayAt),
    'something after the end': Buffer.concat([raw, Buffer.of(0)]),
    nothing: Buffer.alloc(0),
  }
  for (const [what, bytes] of Object.entries(cases)) {
    assert.equal(read(`${PREFIX}${bytes.toString('base64url')}`), undefined, what)
  }
})

test('any bytes are decoded or refused without another error, and no two encode the same token', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const head = Buffer.from(WRITTEN.slice(PREFIX.length), 'base64url').subarray(0, 90)
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), fc.boolean(), fc.string(), (tail, isLike, text) => {
      read(text)
      const written = `${PREFIX}${Buffer.concat([isLike ? head : new Uint8Array(), tail]).toString('base64url')}`
      const found = read(written)
      if (found) assert.equal(encodeToken(found), written)
    }),
    { seed: SEED, numRuns: 2000 },
  )
})

test('a token of another version is told from a damaged one', () => {
  const raw = Buffer.from(WRITTEN.slice(PREFIX.length), 'base64url')
  for (const [at, value, message] of [
    [0, 1, /made by an older version of Static\. Ask for a new one/],
    [0, 3, /made by a newer version of Static\. Update Static/],
    [1, 4, /made by a newer version of Static/],
    [0, 0, /damaged or incomplete/],
  ] as const) {
    const changed = Buffer.from(raw)
    changed[at] = value
    assert.throws(() => decodeToken(`${PREFIX}${changed.toString('base64url')}`), { code: 'invite_invalid', message })
  }
})
