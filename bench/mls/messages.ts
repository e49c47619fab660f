/**
 * A child of bench/mls.ts: what a message of 1 KiB costs, as a ratio to one signature and one encryption of the same
 * bytes by the same back ends. Short turns of floor and message alternate, so that a busy machine hits both alike.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { ed25519, generateSignatureKeyPair } from '@static/sdk/mls'
import { median } from '../api/processor.ts'
import { engine, makeJoiners, makeOwner, type Member } from './channel.ts'

const ROUNDS = 60
const TURN = 100
const WARM_UP = 1500
const PAYLOAD = randomBytes(1024)
/** What is signed, and what is encrypted, for such a message in the smallest bucket. */
const [SIGNED_BYTES, SEALED_BYTES] = [1300, 1837]

const key = generateSignatureKeyPair()
const [sign, verify] = [ed25519.signer(key), ed25519.verifier(key.publicKey)]
const signed = randomBytes(SIGNED_BYTES)
const signature = sign(signed)
const [aeadKey, nonce, data, plaintext] = [16, 12, 40, SEALED_BYTES].map((size) => randomBytes(size)) as [
  Buffer,
  Buffer,
  Buffer,
  Buffer,
]

function seal(): { sealed: Buffer; tag: Buffer } {
  const cipher = createCipheriv('aes-128-gcm', aeadKey, nonce)
  cipher.setAAD(data)
  const sealed = cipher.update(plaintext)
  cipher.final()
  return { sealed, tag: cipher.getAuthTag() }
}

const { sealed, tag } = seal()
const floors = {
  encrypt: (): void => {
    sign(signed)
    seal()
  },
  decrypt: (): void => {
    if (!verify(signed, signature)) throw new Error('the floor has a hole')
    const decipher = createDecipheriv('aes-128-gcm', aeadKey, nonce)
    decipher.setAuthTag(tag)
    decipher.setAAD(data)
    decipher.update(sealed)
    decipher.final()
  },
}

/** Microseconds of CPU per call. */
function cost(count: number, call: () => void): number {
  const before = process.cpuUsage()
  for (let at = 0; at < count; at++) call()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / count
}

async function pairIn(size: number): Promise<[Member, Member]> {
  const owner = await makeOwner()
  const joiners = await makeJoiners(size - 1)
  const adds = joiners.map(({ own }) => own.keyPackage)
  const { next, welcomes } = await engine.commit(owner.group, { adds, now: Date.now() })
  owner.enter(next)
  const [first, welcome] = [joiners[0], welcomes[0]?.welcome]
  if (first === undefined || welcome === undefined) throw new Error('nobody to talk to')
  first.member.enter(await engine.join(welcome, first.own.privatePart, first.member.key, {}))
  return [owner, first.member]
}

async function measure(size: number): Promise<object> {
  const [sender, reader] = await pairIn(size)
  const turns = { encrypt: [] as number[], decrypt: [] as number[] }
  const costs = { encrypt: [] as number[], decrypt: [] as number[] }
  for (let at = 0; at < WARM_UP; at++) {
    reader.open(sender.seal(PAYLOAD))
    floors.encrypt()
    floors.decrypt()
  }
  for (let round = 0; round < ROUNDS; round++) {
    const messages: Uint8Array[] = []
    const encryptFloor = cost(TURN, floors.encrypt)
    const encrypt = cost(TURN, () => messages.push(sender.seal(PAYLOAD)))
    const decryptFloor = cost(TURN, floors.decrypt)
    const waiting = messages.values()
    const decrypt = cost(TURN, () => reader.open(waiting.next().value ?? PAYLOAD))
    turns.encrypt.push(encrypt / encryptFloor)
    turns.decrypt.push(decrypt / decryptFloor)
    costs.encrypt.push(encrypt)
    costs.decrypt.push(decrypt)
  }
  return {
    size,
    ratios: { encrypt: median(turns.encrypt), decrypt: median(turns.decrypt) },
    microseconds: { encrypt: median(costs.encrypt), decrypt: median(costs.decrypt) },
    ciphertextBytes: sender.seal(PAYLOAD).length,
  }
}

console.log(JSON.stringify({ backEnd: ed25519.name, groups: [await measure(2), await measure(100)] }))
