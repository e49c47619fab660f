/** Client certificates for tests: `@static/cli/authority` makes those of servers only. */
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Pair } from './authority.ts'

/** An authority that issues client certificates. */
export interface ClientAuthority {
  readonly cert: string
  issue(): Pair
}

const CLIENT_AUTH = '2b06010505070302'
const ECDSA_SHA256 = der(0x30, oid('2a8648ce3d040302'))

/** Creates an authority (RFC 5280) with its own key. */
export function makeClientAuthority(): ClientAuthority {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = `proxies ${randomBytes(4).toString('hex')}`
  const basic = extension('551d13', true, der(0x30, der(0x01, Buffer.of(0xff))))
  return {
    cert: certificate(name, privateKey, name, privateKey, [basic]),
    issue: () => {
      const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      const usage = extension('551d25', false, der(0x30, oid(CLIENT_AUTH)))
      return {
        cert: certificate('proxy', key, name, privateKey, [usage]),
        key: key.export({ type: 'pkcs8', format: 'pem' }),
      }
    },
  }
}

function certificate(subject: string, key: KeyObject, issuer: string, signer: KeyObject, extensions: Buffer[]): string {
  const day = 86_400_000
  const toBeSigned = der(
    0x30,
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.concat([Buffer.of(0x40), randomBytes(8)])),
    ECDSA_SHA256,
    distinguishedName(issuer),
    der(0x30, time(Date.now() - day), time(Date.now() + day)),
    distinguishedName(subject),
    createPublicKey(key).export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, ...extensions)),
  )
  const signature = der(0x03, Buffer.concat([Buffer.of(0), sign('sha256', toBeSigned, signer)]))
  const base64 = der(0x30, toBeSigned, ECDSA_SHA256, signature).toString('base64')
  return `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`
}

function distinguishedName(name: string): Buffer {
  return der(0x30, der(0x31, der(0x30, oid('550403'), der(0x0c, Buffer.from(name)))))
}

function time(at: number): Buffer {
  const text = new Date(at).toISOString().replaceAll(/[-:T]|\.\d+/g, '')
  return der(0x18, Buffer.from(text))
}

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  return der(0x30, oid(id), ...(critical ? [der(0x01, Buffer.of(0xff))] : []), der(0x04, value))
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'))
}

function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...head), content])
}
