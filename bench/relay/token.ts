/** A token as the API makes it, for a relay that knows the key. */
import { type KeyObject, sign } from 'node:crypto'
import { AUDIENCE, ISSUER } from '@static/protocol'

export function makeToken(key: KeyObject): string {
  const iat = Math.floor(Date.now() / 1000)
  const claims = {
    sub: 'bench',
    plan: 'free',
    iss: ISSUER,
    aud: AUDIENCE,
    iat,
    exp: iat + 3600,
    jti: 'bench',
    mode: 'live',
  }
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part({ alg: 'EdDSA', kid: 'bench' })}.${part(claims)}`
  return `${signed}.${sign(null, Buffer.from(signed), key).toString('base64url')}`
}
