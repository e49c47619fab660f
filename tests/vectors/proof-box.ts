/**
 * The box of a join request to an owner that asks for a proof (6.2, 6.3), by the words of SPEC.md and RFC 9180. Key,
 * ciphertext and secret of ML-KEM are those of ml-kem.json; the ephemeral key of HPKE is given.
 */
import { createCipheriv, createPrivateKey, createPublicKey, diffieHellman } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gcm, hmac, lengthPrefixed, number2, run, sha256 } from './bytes.ts'

const { valid } = JSON.parse(readFileSync(join(import.meta.dirname, 'ml-kem.json'), 'utf8')) as {
  readonly valid: readonly Record<'seed' | 'public_key' | 'ciphertext' | 'secret', string>[]
}
const CONTEXT = 'static proof box 1'
/** The content is as long as with the largest proof. */
const MAX_PROOF_BYTES = 4096
const PKCS8 = Buffer.from('302e020100300506032b656e04220420', 'hex')
const SPKI = Buffer.from('302a300506032b656e032100', 'hex')

/** HKDF-Expand of RFC 5869. */
function expand(prk: Buffer, info: Buffer, length: number): Buffer {
  const blocks: Buffer[] = []
  for (let count = 1; (count - 1) * 32 < length; count++)
    blocks.push(hmac(prk, Buffer.concat([blocks.at(-1) ?? Buffer.alloc(0), info, Buffer.of(count)])))
  return Buffer.concat(blocks).subarray(0, length)
}

const privateOf = (raw: Buffer): ReturnType<typeof createPrivateKey> =>
  createPrivateKey({ key: Buffer.concat([PKCS8, raw]), format: 'der', type: 'pkcs8' })
const pointOf = (raw: Buffer): Buffer =>
  createPublicKey(privateOf(raw)).export({ format: 'der', type: 'spki' }).subarray(-32)

/** HPKE in base mode (RFC 9180, 5.1): DHKEM(X25519), HKDF-SHA256, AES-128-GCM. */
function hpkeSeal(receiver: Buffer, ephemeral: Buffer, info: Buffer, plaintext: Buffer): Buffer {
  const version = Buffer.from('HPKE-v1')
  const kem = Buffer.concat([Buffer.from('KEM'), number2(0x20)])
  const suite = Buffer.concat([Buffer.from('HPKE'), number2(0x20), number2(1), number2(1)])
  const none = Buffer.alloc(0)
  const extracted = (id: Buffer, salt: Buffer, label: string, secret: Buffer): Buffer =>
    hmac(salt, Buffer.concat([version, id, Buffer.from(label), secret]))
  const expanded = (id: Buffer, prk: Buffer, label: string, context: Buffer, length: number): Buffer =>
    expand(prk, Buffer.concat([number2(length), version, id, Buffer.from(label), context]), length)
  const enc = pointOf(ephemeral)
  const publicKey = createPublicKey({ key: Buffer.concat([SPKI, receiver]), format: 'der', type: 'spki' })
  const point = diffieHellman({ privateKey: privateOf(ephemeral), publicKey })
  const eae = extracted(kem, none, 'eae_prk', point)
  const shared = expanded(kem, eae, 'shared_secret', Buffer.concat([enc, receiver]), 32)
  const context = Buffer.concat([
    Buffer.of(0),
    extracted(suite, none, 'psk_id_hash', none),
    extracted(suite, none, 'info_hash', info),
  ])
  const secret = extracted(suite, shared, 'secret', none)
  const key = expanded(suite, secret, 'key', context, 16)
  const cipher = createCipheriv('aes-128-gcm', key, expanded(suite, secret, 'base_nonce', context, 12))
  return Buffer.concat([enc, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

/** A request with a proof, and one without. */
export function proofBoxes(request: {
  readonly inviteId: Buffer
  readonly box: Buffer
  readonly agentId: Buffer
  readonly nonce: Buffer
  readonly mac: Buffer
  readonly keyPackage: Buffer
}): unknown {
  const { inviteId, box: boxSecret, agentId, nonce, mac, keyPackage } = request
  return [
    { about: 'a joiner that shows a proof', vector: 0, proof: run(0x05, 90) },
    { about: 'a joiner that shows none', vector: 1, proof: Buffer.alloc(0) },
  ].map(({ about, vector, proof }) => {
    const { seed = '', public_key: publicKey = '', ciphertext = '', secret = '' } = valid[vector] ?? {}
    const agreement = run(0x40 + vector, 32)
    const boxKey = Buffer.concat([Buffer.of(1), pointOf(agreement), Buffer.from(publicKey, 'hex')])
    const ct = Buffer.from(ciphertext, 'hex')
    const info = lengthPrefixed([CONTEXT, inviteId, agentId, sha256(boxKey), ct])
    const shown = [number2(proof.length), proof, Buffer.alloc(MAX_PROOF_BYTES - proof.length)]
    const content = Buffer.concat([nonce, mac, number2(keyPackage.length), keyPackage, ...shown])
    const inner = hpkeSeal(pointOf(agreement), run(0x60 + vector, 32), info, content)
    const head = Buffer.concat([Buffer.of(1), ct])
    const prk = hmac(boxSecret, Buffer.from(secret, 'hex'))
    const expanded = expand(prk, info, 44)
    const [key, iv] = [expanded.subarray(0, 32), expanded.subarray(32)]
    return {
      about,
      context: CONTEXT,
      secret: Buffer.concat([agreement, Buffer.from(seed, 'hex')]),
      box_key: boxKey,
      box_key_hash: sha256(boxKey),
      agent_id: agentId,
      proof,
      content,
      info,
      inner,
      prk,
      key,
      nonce: iv,
      box: Buffer.concat([head, gcm(key, iv, head, inner)]),
    }
  })
}
