import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Capabilities, type Extension, generateKeyPackageWithKey, type Lifetime } from 'ts-mls'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { capabilitiesOf, lifetimeFrom } from '../../src/mls/ts-mls/config.ts'
import { encodeKeyPackage } from '../../src/mls/ts-mls/message.ts'
import { mlKem768 } from '../../src/platform/node/ml-kem.ts'
import { encodeSealKey, SEAL_KEY_TYPE } from '../../src/mls/seal-key.ts'
import { crypto } from './attacker.ts'
import { Agent, engine, hex, makeChannel, text, words } from './support.ts'

const DAY = 86_400_000
const NOW = Date.now()

const SEAL_KEY = mlKem768.publicKeyOf(new Uint8Array(64).fill(5))

function sealing(extensionData: Uint8Array = encodeSealKey(SEAL_KEY)): Extension {
  return { extensionType: SEAL_KEY_TYPE, extensionData }
}

async function made(change: {
  capabilities?: Partial<Capabilities>
  lifetime?: Partial<Lifetime>
  identity?: Uint8Array
  extensions?: Extension[]
}): Promise<Uint8Array> {
  const { seed: signKey, publicKey } = generateSignatureKeyPair()
  const { publicPackage } = await generateKeyPackageWithKey(
    { credentialType: 'basic', identity: change.identity ?? text('ann') },
    { ...capabilitiesOf(crypto.suite), ...change.capabilities },
    { ...lifetimeFrom(NOW), ...change.lifetime },
    change.extensions ?? [sealing()],
    { signKey, publicKey },
    crypto.provider,
  )
  return encodeKeyPackage(publicPackage)
}

test('a KeyPackage names its agent and is valid for 84 days', async () => {
  const ann = new Agent('ann')
  const { keyPackage, ref, privatePart } = await ann.keyPackage(NOW)
  assert.ok(keyPackage.length < 1600)
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
  await refused(await made({ capabilities: { extensions: [0xf57a] } }), /does not support extension 0xf57c/)
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

test('a KeyPackage without a key to seal its Welcome, or with one that cannot be used, is refused', async () => {
  const old = /no key to seal its Welcome \(extension 0xf57c\)\. Its agent runs an older version/
  const data = encodeSealKey(SEAL_KEY)
  for (const extensions of [
    [],
    [sealing(data.subarray(1))],
    [sealing(data.with(0, 2))],
    [sealing(data.subarray(0, -1))],
    [sealing(Buffer.concat([data, text('x')]))],
    [sealing(), sealing()],
    [{ extensionType: 0xf57d, extensionData: data }],
  ]) {
    await assert.rejects(engine.checkKeyPackage(await made({ extensions }), NOW), {
      code: 'invalid_request',
      message: old,
    })
  }
  // Of the right form, but a coefficient is too large.
  const large = await made({ extensions: [sealing(data.with(1, 0xff).with(2, 0xff))] })
  await assert.rejects(engine.checkKeyPackage(large, NOW), {
    code: 'invalid_request',
    message: /not one of ML-KEM-768/,
  })
  // Others may be beside it.
  const capabilities = { extensions: [...capabilitiesOf(crypto.suite).extensions, 0xf0f0] }
  const more = [{ extensionType: 0xf0f0, extensionData: text('x') }, sealing()]
  await engine.checkKeyPackage(await made({ capabilities, extensions: more }), NOW)
})

test('each KeyPackage has another key, whose seed is only in its private part, and belongs to it', async () => {
  const ann = new Agent('ann')
  const [one, other] = [await ann.keyPackage(NOW), await ann.keyPackage(NOW)]
  const seedOf = ({ privatePart }: typeof one): Uint8Array => privatePart.slice(65, 129)
  for (const each of [one, other]) {
    assert.equal(each.privatePart[0], 2)
    assert.equal(hex(each.privatePart.subarray(129)), hex(each.keyPackage))
    assert.ok(hex(each.keyPackage).includes(hex(encodeSealKey(mlKem768.publicKeyOf(seedOf(each))))))
    assert.ok(!hex(each.keyPackage).includes(hex(seedOf(each))))
  }
  assert.notEqual(hex(seedOf(one)), hex(seedOf(other)))
  const mixed = Uint8Array.from(one.privatePart)
  mixed.set(seedOf(other), 65)
  const owner = new Agent('owner')
  await makeChannel(owner)
  const { welcomes } = await owner.commit({ adds: [one.keyPackage] })
  for (const [privatePart, message] of [
    [mixed, /seed of another KeyPackage/],
    [one.privatePart.with(0, 1), /of another version/],
    [one.privatePart.subarray(0, 64), /malformed/],
  ] as const)
    await assert.rejects(engine.join(welcomes[0]!.welcome, privatePart, ann.key, {}), {
      code: 'store_corrupt',
      message,
    })
})
