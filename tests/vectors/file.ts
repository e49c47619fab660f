/** Files: their key, their parts, and what a message says about them (SPEC.md, 5.1 and 5.9). */
import { hkdfSync } from 'node:crypto'
import { channelId, gcm, idOf, number2, number4, number8, run, sha256 } from './bytes.ts'

const CONTEXT = 'static file 1'
const MEBIBYTE = 1_048_576

interface Named {
  readonly about: string
  readonly size: number
  /** Of the padded file, by the words of SPEC.md. */
  readonly padded_size: number
  readonly name: string
  readonly type: string
  readonly text: string
}

const named: readonly Named[] = [
  { about: 'a short file', size: 5, padded_size: 65_536, name: 'notes.txt', type: 'text/plain', text: 'My notes.' },
  { about: 'an empty file without type and text', size: 0, padded_size: 65_536, name: 'x', type: '', text: '' },
  {
    about: 'a file of two parts, the second one padded',
    size: 1_100_000,
    padded_size: 1_310_720,
    name: 'Übersicht\u202e.gpj',
    type: 'image/jpeg',
    text: '',
  },
]

function partsOf(key: Buffer, { size, padded_size }: Named): Buffer[] {
  const padded = Buffer.alloc(padded_size)
  for (let at = 0; at < size; at++) padded[at] = at % 251
  return Array.from({ length: Math.ceil(padded_size / MEBIBYTE) }, (_, part) => {
    const nonce = run(0x30 + part, 12)
    return Buffer.concat([
      nonce,
      gcm(key, nonce, number4(part), padded.subarray(part * MEBIBYTE, (part + 1) * MEBIBYTE)),
    ])
  })
}

interface FileVector extends Named {
  readonly context: string
  readonly channel_id: Buffer
  readonly file_id: Buffer
  readonly secret: Buffer
  readonly key: Buffer
  readonly parts: readonly object[]
  readonly message: Buffer
}

export const fileVectors: readonly FileVector[] = named.map((file, at) => {
  const [fileId, secret] = [idOf(0x60 + at), run(0x90 + at, 32)]
  const info = Buffer.concat([Buffer.from(CONTEXT), channelId, fileId])
  const key = Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), info, 32))
  const parts = partsOf(key, file)
  const [name, type, text] = [Buffer.from(file.name), Buffer.from(file.type), Buffer.from(file.text)]
  const message = Buffer.concat([
    Buffer.concat([fileId, secret, number8(file.size), number2(name.length), name]),
    Buffer.concat([Buffer.of(type.length), type, number4(text.length), text]),
    ...parts.map((part) => sha256(part)),
  ])
  return {
    ...file,
    context: CONTEXT,
    channel_id: channelId,
    file_id: fileId,
    secret,
    key,
    parts: parts.map((part) => ({
      bytes: part.length,
      first: part.subarray(0, 32),
      last: part.subarray(-32),
      sha256: sha256(part),
    })),
    message,
  }
})
