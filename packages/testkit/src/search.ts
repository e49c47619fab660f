/** Searches bytes for a secret in any encoding. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The encodings of a text: UTF-8, UTF-16, hexadecimal, and base64 at each of its three alignments. */
export function formsOf(secret: string): Buffer[] {
  const bytes = Buffer.from(secret)
  const forms = [bytes, Buffer.from(secret, 'utf16le'), Buffer.from(bytes.toString('hex'))]
  forms.push(Buffer.from(bytes.toString('hex').toUpperCase()))
  for (let shift = 0; shift < 3; shift++) {
    const padded = Buffer.concat([Buffer.alloc(shift), bytes])
    // The first and last characters contain bits of the neighbouring bytes.
    const inner = padded.toString('base64').slice(shift === 0 ? 0 : shift + 1, Math.floor((padded.length * 8) / 6))
    forms.push(Buffer.from(inner), Buffer.from(inner.replaceAll('+', '-').replaceAll('/', '_')))
  }
  return forms
}

/** The names of the secrets found in the bytes. */
export function found(secrets: Readonly<Record<string, string>>, bytes: Buffer): string[] {
  return Object.entries(secrets)
    .filter(([, secret]) => formsOf(secret).some((form) => bytes.includes(form)))
    .map(([name]) => name)
}

/** The concatenated files of a directory. */
export function contentOf(directory: string): Buffer {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return Buffer.concat(files.map((entry) => readFileSync(join(entry.parentPath, entry.name))))
}
