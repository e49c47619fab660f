import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { fromHex } from '@static/protocol'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import { encodeLink, parseInviteLink } from '../../src/admitting/link.ts'
import { decodeToken } from '../../src/admitting/token.ts'
import { readVectors } from './own.ts'

interface Link {
  readonly about: string
  readonly way: 'quic' | 'grpc'
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  readonly grpc_port: number
  readonly relay_id: string
  readonly certificates: readonly string[]
  readonly token: string
  readonly text: string
}

for (const link of readVectors('link.json') as readonly Link[]) {
  test(`vectors: an invite link, ${link.about}`, () => {
    const token = `st_inv_${Buffer.from(link.token, 'hex').toString('base64url')}`
    const { relay, name, expiresAt } = decodeToken(token)
    const scheme = link.way === 'quic' ? 'quic' : 'https'
    const bracketed = (host: string): string => (host.includes(':') ? `[${host}]` : host)
    const address = link.addresses.map(({ host, port }) => `${scheme}://${bracketed(host)}:${port}`).join(',')
    const endpoint = parseEndpoint(address, { relayName: relay })
    const certificates = link.certificates.map((hex) => new X509Certificate(fromHex(hex)).toString())
    const ca = certificates.length === 0 ? undefined : certificates.join('')
    const parts = { endpoint, grpcPort: link.grpc_port, relayId: fromHex(link.relay_id), ca, token }
    assert.equal(encodeLink(parts), link.text)
    assert.deepEqual(parseInviteLink(link.text), {
      endpoint: address,
      relayName: relay,
      grpcPort: link.grpc_port || undefined,
      relayId: link.relay_id,
      ca,
      channel: name,
      token,
      expiresAt: new Date(expiresAt),
    })
  })
}
