/** Fuzzes what comes from members, from issuers and from people: proofs, JWTs, files of keys, rules and roots. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fuzz } from '@static/testkit/fuzz'
import { ed25519 } from '@static/node/ed25519'
import { checkProof } from '../../src/proofs/check.ts'
import { MAX_KEYS_BYTES, MOST_DOMAIN_KEYS, readKeys } from '../../src/proofs/keys.ts'
import { audienceOf, decodeProof, makeProof } from '../../src/proofs/proof.ts'
import { parseRoot } from '../../src/proofs/roots.ts'
import { parseRule, ruleText } from '../../src/proofs/rules.ts'
import { Agent, allRoots, DOMAIN, domainFile, issuers, job, NOW, REPOSITORY, signedStatement } from './scene.ts'

const alice = new Agent()
const context = alice.context()
const salt = new Uint8Array(16).fill(3)

const decoded = (jwt: string): string =>
  jwt
    .split('.')
    .map((part) => Buffer.from(part, 'base64url').toString('hex'))
    .join('.')

test('proofs', async (t) => {
  const roots = await allRoots()
  const token = await issuers.github.sign(job(audienceOf(context, salt)))
  const proofs = [
    await alice.proof('statement', () => signedStatement(alice), context, salt),
    await alice.proof('token', () => token, context, salt),
  ]
  const good = new Set(proofs.map((proof) => Buffer.from(proof).toString('latin1')))
  await fuzz(t, {
    name: 'proofs',
    seeds: proofs,
    decode: async (bytes) => {
      const proof = decodeProof(bytes)
      if (proof) {
        // Whatever is decoded has one form only.
        const again = makeProof(proof, context, () => proof.signature)
        assert.deepEqual(again && Buffer.from(again), Buffer.from(bytes))
      }
      const { verdict } = await checkProof(bytes, context, roots, NOW)
      if (!good.has(Buffer.from(bytes).toString('latin1'))) assert.equal(verdict.state, 'invalid')
    },
  })
})

test('JWTs that the agent has countersigned', async (t) => {
  const roots = await allRoots()
  const jwts = [await signedStatement(alice), await issuers.github.sign(job(audienceOf(context, salt)))]
  const heads = jwts.map((jwt) => jwt.split('.')[0] ?? '')
  await fuzz(t, {
    name: 'proof-jwts',
    seeds: jwts.map((jwt) => Buffer.from(jwt)),
    words: [...heads, '.', 'eyJhbGciOiJub25lIn0', 'e30'],
    decode: async (bytes) => {
      const jwt = Buffer.from(bytes).toString('latin1')
      for (const kind of ['token', 'statement'] as const) {
        const proof = makeProof({ kind, salt, jwt }, context, ed25519.signer(alice.key))
        if (proof === undefined) continue
        const { verdict } = await checkProof(proof, context, roots, NOW)
        // The last characters of a signature have more than one form in base64url.
        if (!jwts.some((known) => decoded(known) === decoded(jwt))) assert.notEqual(verdict.state, 'checked')
      }
    },
  })
})

test('files of keys', async (t) => {
  const files = [await domainFile([issuers.domain]), { keys: [await issuers.github.jwk(), await issuers.oidc.jwk()] }]
  await fuzz(t, {
    name: 'proof-keys',
    seeds: files.map((file) => Buffer.from(JSON.stringify(file))),
    words: ['"d":"A"', '"keys":[]', '"revoked":["AAAAAAAAAAAAAAAAAAAAAA"]', '__proto__', '1e999'],
    decode: (bytes) => {
      for (const root of [DOMAIN, REPOSITORY]) {
        const found = readKeys(root, bytes)
        if (typeof found === 'string') continue
        assert.ok(bytes.length <= MAX_KEYS_BYTES && found.keys.length > 0)
        for (const key of found.keys) assert.ok(!('d' in key) && ['RSA', 'EC', 'OKP'].includes(key.kty))
        if (root === DOMAIN) assert.ok(found.keys.length <= MOST_DOMAIN_KEYS)
      }
    },
  })
})

test('rules and roots', async (t) => {
  const seeds = [
    'acme.example',
    'github:acme/*@refs/heads/main',
    'oidc:https://idp.example#a:*',
    'spiffe://acme.example/ns/*',
  ]
  await fuzz(t, {
    name: 'proof-rules',
    seeds: seeds.map((text) => Buffer.from(text)),
    words: ['github:', 'oidc:', 'spiffe://', '@environment:', '/*', '..', '//', '#'],
    decode: (bytes) => {
      const text = Buffer.from(bytes).toString()
      try {
        parseRoot(text)
      } finally {
        const rule = parseRule(text)
        assert.deepEqual(parseRule(ruleText(rule)), rule)
        assert.deepEqual(parseRule(rule), rule)
        assert.doesNotMatch(ruleText(rule), /\*[^@]|[^/:]\*|\s|\.\./)
      }
    },
  })
})
