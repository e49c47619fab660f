/**
 * keys.json: the random key of the database, once per slot, wrapped with AES-256-GCM under the slot's own key. The
 * other fields of the slot are authenticated with it, so that a slot cannot pass for another and its passphrase cost
 * cannot be lowered.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { readPrivateFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { KEY_BYTES, type Stretching } from './sources.ts'

/** The header of a slot, readable without opening it. */
export interface KeySlot {
  /** 16 hexadecimal digits. */
  readonly id: string
  /** The kind of key that opens it. */
  readonly type: 'file' | 'passphrase' | 'keyring'
}

/** A slot without the database's key. */
export type SlotHeader =
  | { readonly id: string; readonly type: 'file' | 'keyring' }
  | { readonly id: string; readonly type: 'passphrase'; readonly stretching: Stretching }

/** A slot in the file. */
export type WrappedSlot = SlotHeader & {
  readonly nonce: Uint8Array
  /** Ciphertext, then tag. */
  readonly wrapped: Uint8Array
}

const VERSION = 1
const TAG_BYTES = 16
/** Upper limit for the cost of a passphrase, so that a foreign file cannot stall the machine. */
const MEMORY_LIMIT = 4 * 1024 * 1024
const PASSES_LIMIT = 64

/** Path of the slots in an agent's directory. */
export function slotFile(directory: string): string {
  return join(directory, 'keys.json')
}

/** Reads the slots; undefined if there is no file. Throws `store_corrupt` if it is malformed. */
export function readSlots(directory: string): readonly WrappedSlot[] | undefined {
  const content = readPrivateFile(slotFile(directory))
  if (content === undefined) return undefined
  const slots = decodeSlots(content.toString())
  if (slots !== undefined) return slots
  throw new StaticError(
    'store_corrupt',
    `${slotFile(directory)} is damaged, or was written by a newer version of Static.`,
  )
}

/** The content of the file. */
export function encodeSlots(slots: readonly WrappedSlot[]): string {
  const plain = slots.map((slot) => ({
    ...headerFields(slot),
    nonce: base64(slot.nonce),
    wrapped: base64(slot.wrapped),
  }))
  return `${JSON.stringify({ version: VERSION, slots: plain }, undefined, 2)}\n`
}

/** Wraps the database's key in a slot. */
export function wrapKey(header: SlotHeader, slotKey: Uint8Array, key: Uint8Array): WrappedSlot {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', slotKey, nonce)
  cipher.setAAD(authenticated(header))
  return { ...header, nonce, wrapped: Buffer.concat([cipher.update(key), cipher.final(), cipher.getAuthTag()]) }
}

/** Unwraps the database's key from a slot; undefined if the slot's key is wrong or the slot was changed. */
export function unwrapKey(slot: WrappedSlot, slotKey: Uint8Array): Buffer | undefined {
  const cipher = createDecipheriv('aes-256-gcm', slotKey, slot.nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(authenticated(slot))
  cipher.setAuthTag(slot.wrapped.subarray(KEY_BYTES))
  const key = cipher.update(slot.wrapped.subarray(0, KEY_BYTES))
  try {
    cipher.final()
    return key
  } catch {
    key.fill(0)
    return undefined
  }
}

function authenticated(header: SlotHeader): Buffer {
  return Buffer.from(`static key slot ${VERSION} ${JSON.stringify(headerFields(header))}`)
}

/** Always in this order, because the resulting text is authenticated. */
function headerFields(header: SlotHeader): object {
  const { id, type } = header
  if (type !== 'passphrase') return { id, type }
  const { salt, memory, passes } = header.stretching
  return { id, type, salt: base64(salt), memory, passes }
}

function decodeSlots(text: string): readonly WrappedSlot[] | undefined {
  const file = parseObject(text)
  if (file?.['version'] !== VERSION || !Array.isArray(file['slots'])) return undefined
  const slots = file['slots'].map(decodeSlot).filter((slot) => slot !== undefined)
  return slots.length > 0 && slots.length === file['slots'].length ? slots : undefined
}

function decodeSlot(value: unknown): WrappedSlot | undefined {
  if (!isObject(value)) return undefined
  const { id, type } = value
  const nonce = fromBase64(value['nonce'], 12)
  const wrapped = fromBase64(value['wrapped'], KEY_BYTES + TAG_BYTES)
  if (typeof id !== 'string' || !/^[0-9a-f]{16}$/.test(id) || nonce === undefined || wrapped === undefined) {
    return undefined
  }
  if (type === 'file' || type === 'keyring') return { id, type, nonce, wrapped }
  const stretching = decodeStretching(value)
  return type === 'passphrase' && stretching !== undefined ? { id, type, stretching, nonce, wrapped } : undefined
}

function decodeStretching(value: Readonly<Record<string, unknown>>): Stretching | undefined {
  const salt = fromBase64(value['salt'], 16)
  const memory = wholeNumber(value['memory'], MEMORY_LIMIT)
  const passes = wholeNumber(value['passes'], PASSES_LIMIT)
  return salt && memory && passes ? { salt, memory, passes } : undefined
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

function wholeNumber(value: unknown, limit: number): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= limit ? value : undefined
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64')
}

function fromBase64(value: unknown, length: number): Buffer | undefined {
  if (typeof value !== 'string') return undefined
  const bytes = Buffer.from(value, 'base64')
  return bytes.length === length ? bytes : undefined
}
