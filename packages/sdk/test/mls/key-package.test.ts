import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Capabilities, generateKeyPackageWithKey, type Lifetime } from 'ts-mls'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { capabilitiesOf, lifetimeFrom } from '../../src/mls/ts-mls/config.ts'
import { encodeKeyPackage } from '../../src/mls/ts-mls/message.ts'
import { crypto } from './attacker.ts'
import { Agent, engine, hex, text, words } from './support.ts'

const DAY = 86_400_000
const NOW = Date.now()

async function made(change: {
  capabilities?: Partial<Capabilities>
  lifetime?: Partial<Lifetime>
  identity?: Uint8Array
}): Promise<Uint8Array> {
  const { seed: signKey, publicKey } = generateSignatureKeyPair()
  const { publicPackage } = await generateKeyPackageWithKey(
    { credentialType: 'basic', identity: change.identity ?? text('ann') },
    { ...capabilitiesOf(crypto.suite), ...change.capabilities },
    { ...lifetimeFrom(NOW), ...change.lifetime },
    [],
    { signKey, publicKey },
    crypto.provider,
  )
  return encodeKeyPackage(publicPackage)
}

test('a KeyPackage names its agent and is valid for 84 days', async () => {
  const ann = new Agent('ann')
  const { keyPackage, ref, privatePart } = await ann.keyPackage(NOW)
  assert.ok(keyPackage.length < 400)
  assert.ok(!hex(privatePart).includes(hex(ann.key.seed)))
  const checked = await engine.checkKeyPackage(keyPackage, NOW, ann.agentId)
  assert.equal(words(checked.identity), 'ann')
  assert.equal(hex(checked.agentId), hex(ann.agentId))
  assert.equal(hex(checked.ref), hex(ref))
  await engine.checkKeyPackage(keyPackage, NOW + 83.9 * DAY)
  for (const time of [NOW + 84.1 * DAY, NOW - DAY])
    await assert.rejects(engine.checkKeyPackage(keyPackage, time), { code: 'key_package_unavailable' })
  await assert.rejects(engine.checkKeyPackage(keyPackage, NOW, new Agent('bob').agentId), { code: 'invalid_request' })
})

test('a KeyPackage that a channel cannot use is refused', async () => {
  const refused = async (bytes: Uint8Array, message: RegExp): Promise<void> =>
    assert.rejects(engine.checkKeyPackage(bytes, NOW), { code: 'invalid_request', message })
  const good = await made({})
  await engine.checkKeyPackage(good, NOW)
  for (const at of [10, 60, 100, good.length - 70, good.length - 1]) {
    const broken = Uint8Array.from(good)
    broken[at]! ^= 1
    await assert.rejects(engine.checkKeyPackage(broken, NOW), { name: 'StaticError' }, `byte ${at}`)
  }
  await refused(text('x'), /Not a KeyPackage/)
  await refused(Buffer.concat([good, text('x')]), /Not a KeyPackage/)
  await refused(good.subarray(0, 50), /Not a KeyPackage/)
  await refused(await made({ capabilities: { extensions: [] } }), /does not support extension 0xf57a/)
  await refused(await made({ capabilities: { ciphersuites: [] } }), /does not support suite MLS_/)
  await refused(await made({ identity: text('\0static founder') }), /no identity/)
  await refused(await made({ identity: new Uint8Array() }), /no identity/)
  await refused(await made({ lifetime: { notBefore: 0n } }), /too long/)
  await assert.rejects(engine.generateKeyPackage(text('\0x'), generateSignatureKeyPair(), NOW), {
    code: 'invalid_request',
  })
  await assert.rejects(engine.generateKeyPackage(new Uint8Array(256).fill(1), generateSignatureKeyPair(), NOW), {
    code: 'invalid_request',
  })
})
