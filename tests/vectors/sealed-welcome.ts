/**
 * Sealed Welcomes (4.5), by the words of SPEC.md. Node cannot encapsulate a secret that is given, so key, ciphertext and
 * secret are those of ml-kem.json, which another implementation made.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gcm, hmac, lengthPrefixed, number2, run, sha256 } from './bytes.ts'

const { valid } = JSON.parse(readFileSync(join(import.meta.dirname, 'ml-kem.json'), 'utf8')) as {
  readonly valid: readonly Record<'seed' | 'public_key' | 'ciphertext' | 'secret', string>[]
}
const CONTEXT = 'static sealed welcome 1'
const TYPE = 0xf57c

/** HKDF-Expand of RFC 5869, for at most two blocks. */
function expand(prk: Buffer, info: Buffer, length: number): Buffer {
  const first = hmac(prk, Buffer.concat([info, Buffer.of(1)]))
  const second = hmac(prk, Buffer.concat([first, info, Buffer.of(2)]))
  return Buffer.concat([first, second]).subarray(0, length)
}

/** A Welcome by the invite of invite.json, and one without. */
export function sealedWelcomes(invite: { readonly id: Buffer; readonly seal: Buffer }): unknown {
  return [
    { about: 'added by hand', vector: 0, id: Buffer.alloc(0), seal: Buffer.alloc(32) },
    { about: 'joining by the invite of invite.json', vector: 1, id: invite.id, seal: invite.seal },
  ].map(({ about, vector, id, seal }) => {
    const { seed = '', public_key: publicKey = '', ciphertext = '', secret = '' } = valid[vector] ?? {}
    const encapsulationKey = Buffer.from(publicKey, 'hex')
    const ref = run(0x21, 32)
    const ownPart = run(0x31, 126)
    const groupInfo = run(0x41, 300)
    const head = Buffer.concat([
      Buffer.of(0, 1, 0xf5, 0x7c, 1, id.length > 0 ? 1 : 0),
      ref,
      id,
      Buffer.from(ciphertext, 'hex'),
      number2(ownPart.length + 16),
    ])
    const prk = hmac(seal, Buffer.from(secret, 'hex'))
    const info = lengthPrefixed([CONTEXT, head, sha256(encapsulationKey), sha256(groupInfo)])
    const expanded = expand(prk, info, 44)
    const [key, nonce] = [expanded.subarray(0, 32), expanded.subarray(32)]
    const sealed = gcm(key, nonce, head, ownPart)
    return {
      about,
      context: CONTEXT,
      seed: Buffer.from(seed, 'hex'),
      extension: { type: TYPE, data: Buffer.concat([Buffer.of(1), encapsulationKey]) },
      key_package_ref: ref,
      invite_id: id,
      seal_key: seal,
      kem_secret: Buffer.from(secret, 'hex'),
      own_part: ownPart,
      group_info: groupInfo,
      head,
      prk,
      info,
      key,
      nonce,
      welcome: Buffer.concat([head, sealed, groupInfo]),
    }
  })
}
