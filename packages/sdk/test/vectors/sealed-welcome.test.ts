/** The seal of a Welcome (SPEC.md, 4.5). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex, toHex } from '@static/protocol'
import { sha256 } from '../../src/mls/hash.ts'
import { encodeSealKey, findSealKey, SEAL_KEY_TYPE } from '../../src/mls/seal-key.ts'
import { openSealedWelcome, parseSealedWelcome, sealWelcome } from '../../src/mls/sealed-welcome.ts'
import { nodeMlKem } from '../../src/platform/node/ml-kem.ts'
import { readVectors } from './own.ts'

type Name = 'about' | 'seed' | 'key_package_ref' | 'invite_id' | 'seal_key' | 'kem_secret' | 'own_part' | 'group_info'
type Result = 'head' | 'prk' | 'key' | 'welcome'
interface Vector extends Readonly<Record<Name | Result, string>> {
  readonly extension: { readonly type: number; readonly data: string }
}

const vectors = readVectors('sealed-welcome.json') as readonly Vector[]

/** The arrays that a call makes, as they are when it has returned. Not those that Node makes. */
function arraysOf(call: () => void): readonly Uint8Array[] {
  const arrays: Uint8Array[] = []
  const { Uint8Array } = globalThis
  globalThis.Uint8Array = new Proxy(Uint8Array, {
    construct: (target, given, newTarget) => {
      const made = Reflect.construct(target, given, newTarget) as Uint8Array
      arrays.push(made)
      return made
    },
  })
  try {
    call()
  } finally {
    globalThis.Uint8Array = Uint8Array
  }
  return arrays
}

for (const vector of vectors) {
  const { about } = vector
  const sealKey = nodeMlKem.publicKeyOf(fromHex(vector.seed))
  const [ownPart, groupInfo, welcome] = [vector.own_part, vector.group_info, vector.welcome].map(fromHex) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ]
  const isInvited = vector.invite_id !== ''

  test(`vectors: a sealed Welcome is opened: ${about}`, () => {
    const sealed = parseSealedWelcome(welcome) ?? assert.fail()
    assert.equal(toHex(sealed.head), vector.head)
    assert.equal(toHex(sealed.ref), vector.key_package_ref)
    assert.equal(toHex(sealed.inviteId ?? new Uint8Array()), vector.invite_id)
    const seal = isInvited ? fromHex(vector.seal_key) : undefined
    const opened = openSealedWelcome(sealed, { seed: fromHex(vector.seed), sealKey }, seal)
    assert.equal(toHex(opened), vector.own_part + vector.group_info)
  })

  test(`vectors: a Welcome is sealed: ${about}`, () => {
    const { ciphertext } = parseSealedWelcome(welcome) ?? assert.fail()
    const encapsulate = () => ({ ciphertext, secret: fromHex(vector.kem_secret) })
    const recipient = { ref: fromHex(vector.key_package_ref), sealKey, encapsulate }
    const invite = isInvited ? { inviteId: fromHex(vector.invite_id), seal: fromHex(vector.seal_key) } : undefined
    const made = sealWelcome(ownPart, sha256(groupInfo), recipient, invite)
    assert.equal(toHex(made) + vector.group_info, vector.welcome)
  })

  test(`vectors: no secret of a seal is left in memory: ${about}`, () => {
    const { head, ciphertext } = parseSealedWelcome(welcome) ?? assert.fail()
    const secret = fromHex(vector.kem_secret)
    const recipient = { ref: fromHex(vector.key_package_ref), sealKey, encapsulate: () => ({ ciphertext, secret }) }
    const invite = isInvited ? { inviteId: fromHex(vector.invite_id), seal: fromHex(vector.seal_key) } : undefined
    const groupInfoHash = sha256(groupInfo)
    const left = [...arraysOf(() => sealWelcome(ownPart, groupInfoHash, recipient, invite)), secret].map(toHex)
    assert.ok(
      left.some((bytes) => bytes.includes(toHex(head))),
      'arrays are seen',
    )
    for (const name of ['kem_secret', 'prk', 'key'] as const)
      assert.ok(!left.some((bytes) => bytes.includes(vector[name])), `${name} is left`)
  })

  test(`vectors: the extension of a KeyPackage: ${about}`, () => {
    const { type, data } = vector.extension
    assert.equal(type, SEAL_KEY_TYPE)
    assert.equal(toHex(encodeSealKey(sealKey)), data)
    const found = findSealKey([{ extensionType: type, extensionData: fromHex(data) }])
    assert.equal(toHex(found ?? assert.fail()), toHex(sealKey))
  })
}
