/**
 * Application messages of one epoch (RFC 9420, sections 6.3 and 9.1), synchronous: a message costs little more than
 * its signature and its encryption. The application ratchets are moved out of the MLS library's state into rows, one
 * per leaf. A row is a value: `seal` and `open` return the next row, and the caller saves it before dropping the old
 * one. The relay orders all entries, so a sender's generations only increase: no keys are kept for skipped
 * generations, and an opened message can be opened again only with its own message key.
 * Sealing twice with the same row would use a key twice: hold the group's mutex from `seal` until the new row is saved.
 */
import { fillRandom, type Signer, type Verifier } from '#platform/crypto'
import { MAX_CIPHERTEXT_BYTES, SIGNATURE_BYTES, StaticError } from '@static/protocol'
import { NONCE_BYTES, seal, type Suite, TAG_BYTES, unseal } from './aead.ts'
import { allocate, concat, isZero, utf8, viewOf, writeUint32 } from '../platform/bytes.ts'
import { CONTENT_TYPES, lengthBytes, parsePrivateMessage, PRIVATE_MESSAGE, readSpan, writeLength } from './framing.ts'
import { DIGEST_BYTES, HMAC_START, hmacInput, hmacInto } from './hash.ts'
import { contentBytes } from './padding.ts'

const MAX_GENERATION = 0xffff_ffff
const GUARD_BYTES = 4
const SENDER_DATA_BYTES = 12
const SENDER_MEMBER = 1
const EMPTY = new Uint8Array()
/** Memory for longer messages is not kept. */
const LONGEST_SCRATCH = 65_536

/** The application ratchet of a leaf: the secret of its next generation. */
export interface RatchetRow {
  readonly epoch: bigint
  readonly leaf: number
  readonly generation: number
  readonly secret: Uint8Array
}

/** The rows of an epoch, by leaf. */
export type Ratchets = ReadonlyMap<number, RatchetRow>

export interface Sealed {
  readonly ciphertext: Uint8Array
  /** Opens only this message, with `reopen`. */
  readonly messageKey: Uint8Array
  /** The sender's ratchet after this message. */
  readonly row: RatchetRow
}

export interface Opened {
  /** The leaf that signed it. */
  readonly leaf: number
  readonly generation: number
  readonly plaintext: Uint8Array
  readonly authenticatedData: Uint8Array
  /** Opens only this message, with `reopen`. */
  readonly messageKey: Uint8Array
  /** The sender's ratchet after this message. */
  readonly row: RatchetRow
}

/** The caller's knowledge about the sender before it opens a message. */
export interface ExpectedSender {
  /** Undefined accepts any leaf. */
  readonly leaf?: number | undefined
  /** How many steps the message may advance its ratchet: the hashing happens before anything is authenticated. */
  readonly steps: number
}

/** The keys of an epoch that messages need. */
export interface EpochKeys {
  readonly suite: Suite
  readonly groupId: Uint8Array
  readonly epoch: bigint
  /** The encoded GroupContext. */
  readonly groupContext: Uint8Array
  readonly senderDataSecret: Uint8Array
  readonly leaf: number
  readonly sign: Signer
  /** Undefined for a blank leaf. */
  verifier(leaf: number): Verifier | undefined
}

const ROW_BYTES = 8 + 4 + 4 + DIGEST_BYTES

/** Encodes a row for the database: 48 bytes. */
export function encodeRow({ epoch, leaf, generation, secret }: RatchetRow): Uint8Array {
  const bytes = new Uint8Array(ROW_BYTES)
  viewOf(bytes).setBigUint64(0, epoch)
  writeUint32(bytes, 8, leaf)
  writeUint32(bytes, 12, generation)
  bytes.set(secret, 16)
  return bytes
}

/**
 * Decodes a row from the database.
 *
 * @throws {StaticError} `store_corrupt` if its length is wrong
 */
export function decodeRow(bytes: Uint8Array): RatchetRow {
  if (bytes.length !== ROW_BYTES)
    throw StaticError.of('store_corrupt', `A stored ratchet is ${bytes.length} bytes, not ${ROW_BYTES}.`)
  const view = viewOf(bytes)
  const secret = Uint8Array.from(bytes.subarray(16))
  return { epoch: view.getBigUint64(0), leaf: view.getUint32(8), generation: view.getUint32(12), secret }
}

/** The KDFLabel of a secret (RFC 9420, section 8) with space for its context: one block of HKDF-Expand. */
interface Label {
  readonly input: Uint8Array
  readonly context: number
  readonly bytes: number
}

function label(name: string, bytes: number, contextBytes: number): Label {
  const words = utf8(`MLS 1.0 ${name}`)
  const input = hmacInput(2 + 1 + words.length + 1 + contextBytes + 1)
  const context = HMAC_START + 3 + words.length + 1
  input.set([bytes >>> 8, bytes, words.length, ...words, contextBytes], HMAC_START)
  input[context + contextBytes] = 1
  return { input, context, bytes }
}

const NEXT = label('secret', DIGEST_BYTES, 4)
const NONCE = label('nonce', NONCE_BYTES, 4)
const SENDER_NONCE = label('nonce', NONCE_BYTES, DIGEST_BYTES)
const SIGN_LABEL = utf8('MLS 1.0 FramedContentTBS')
const derived = new Uint8Array(DIGEST_BYTES)

function ofGeneration(target: Uint8Array, at: number, label: Label, secret: Uint8Array, generation: number): void {
  writeUint32(label.input, label.context, generation)
  derive(target, at, label, secret)
}

function ofSample(target: Uint8Array, at: number, label: Label, secret: Uint8Array, ciphertext: Uint8Array): void {
  for (let byte = 0; byte < DIGEST_BYTES; byte++) label.input[label.context + byte] = ciphertext[byte] ?? 0
  derive(target, at, label, secret)
}

function derive(target: Uint8Array, at: number, { input, bytes }: Label, secret: Uint8Array): void {
  hmacInto(derived, secret, input)
  for (let byte = 0; byte < bytes; byte++) target[at + byte] = derived[byte] ?? 0
  derived.fill(0)
}

/** The secret of the next generation (RFC 9420, section 9.1). */
export function nextSecret(secret: Uint8Array, generation: number): Uint8Array {
  const next = new Uint8Array(DIGEST_BYTES)
  ofGeneration(next, 0, NEXT, secret, generation)
  return next
}

/** Memory for one message at a time. The caller wipes it. */
class Scratch {
  #bytes = new Uint8Array(4096)

  take(length: number): Uint8Array {
    if (length > LONGEST_SCRATCH) return new Uint8Array(length)
    if (length > this.#bytes.length) this.#bytes = new Uint8Array(2 * length)
    return this.#bytes.subarray(0, length)
  }
}

const contents = new Scratch()
const signedContents = new Scratch()

const guards = new Uint8Array(4096)
let guardsUsed = guards.length

/** Four random bytes from a buffer: generating four at a time costs more than encrypting with them. */
function reuseGuard(): Uint8Array {
  if (guardsUsed === guards.length) {
    fillRandom(guards)
    guardsUsed = 0
  }
  guardsUsed += GUARD_BYTES
  return guards.subarray(guardsUsed - GUARD_BYTES, guardsUsed)
}

/** Seals and opens the application messages of one epoch. */
export class EpochCipher {
  readonly #keys: EpochKeys
  /** The start of every MLSMessage, up to and including the epoch. */
  readonly #head: Uint8Array
  /** The additional data of the sender data's AEAD. */
  readonly #senderDataAad: Uint8Array
  readonly #key: Label
  readonly #senderKey: Label
  readonly #verifiers = new Map<number, Verifier>()

  constructor(keys: EpochKeys) {
    this.#keys = keys
    const { groupId, suite } = keys
    const epoch = new Uint8Array(8)
    viewOf(epoch).setBigUint64(0, keys.epoch)
    const length = new Uint8Array(lengthBytes(groupId.length))
    writeLength(length, 0, groupId.length)
    this.#head = concat(PRIVATE_MESSAGE, length, groupId, epoch)
    const type = new Uint8Array([CONTENT_TYPES.application])
    this.#senderDataAad = concat(this.#head.subarray(PRIVATE_MESSAGE.length), type)
    this.#key = label('key', suite.keyBytes, 4)
    this.#senderKey = label('key', suite.keyBytes, DIGEST_BYTES)
  }

  /**
   * Encrypts and signs a message from this agent's leaf, padded to its bucket.
   *
   * @throws {StaticError} `epoch_mismatch` for a row of another epoch, `too_large`
   */
  seal(row: RatchetRow, plaintext: Uint8Array, authenticatedData: Uint8Array = EMPTY): Sealed {
    const { suite, sign, leaf } = this.#keys
    this.#expectRow(row, leaf)
    const { generation, secret } = row
    if (generation === MAX_GENERATION) throw StaticError.of('mls_error', 'The ratchet is exhausted. Rotate the keys.')
    // Head, content type, authenticated data, sender data.
    const dataAt = this.#head.length + 1
    const sealedDataBytes = SENDER_DATA_BYTES + TAG_BYTES
    const headBytes = dataAt + lengthBytes(authenticatedData.length) + authenticatedData.length + 1 + sealedDataBytes
    const content = contents.take(contentBytes(plaintext.length, headBytes))
    const sealedBytes = content.length + TAG_BYTES
    const message = allocate(headBytes + lengthBytes(sealedBytes) + sealedBytes)
    message.set(this.#head)
    message[this.#head.length] = CONTENT_TYPES.application
    let at = writeLength(message, dataAt, authenticatedData.length)
    message.set(authenticatedData, at)
    at += authenticatedData.length
    const contentData = message.subarray(PRIVATE_MESSAGE.length, at)

    const guard = reuseGuard()
    const messageKey = this.#messageKey(secret, generation, guard)
    const sealedAt = writeLength(message, headBytes, sealedBytes)
    let end = writeLength(content, 0, plaintext.length)
    content.set(plaintext, end)
    end = writeLength(content, end + plaintext.length, SIGNATURE_BYTES)
    const toBeSigned = this.#toBeSigned(leaf, authenticatedData, plaintext)
    try {
      content.set(sign(toBeSigned), end)
      content.fill(0, end + SIGNATURE_BYTES)
      seal(suite, messageKey, contentData, content, message, sealedAt)
    } finally {
      // Both contain the plaintext, and the memory is reused.
      content.fill(0)
      toBeSigned.fill(0)
    }

    const senderData = new Uint8Array(SENDER_DATA_BYTES)
    writeUint32(senderData, 0, leaf)
    writeUint32(senderData, 4, generation)
    senderData.set(guard, 8)
    const senderKey = this.#senderDataKey(message.subarray(sealedAt))
    message[at] = sealedDataBytes
    seal(suite, senderKey, this.#senderDataAad, senderData, message, at + 1)
    const next = nextSecret(secret, generation)
    return { ciphertext: message, messageKey, row: { ...row, generation: generation + 1, secret: next } }
  }

  /**
   * Decrypts a message from another leaf and verifies its signature. No row changes if it fails, and nothing is hashed
   * for a message that is not from the expected leaf or is too far ahead.
   *
   * @throws {StaticError} `epoch_mismatch` for another epoch, otherwise `decryption_failure`
   */
  open(ratchets: Ratchets, message: Uint8Array, expected: ExpectedSender): Opened {
    const { suite, epoch } = this.#keys
    const parts = parsePrivateMessage(message)
    if (parts === undefined || message.length > MAX_CIPHERTEXT_BYTES)
      throw failure(`Not an MLS PrivateMessage: ${message.length} bytes.`)
    if (parts.contentType !== CONTENT_TYPES.application)
      throw failure(`Not an application message: its content type is ${parts.contentType}.`)
    if (parts.epoch !== epoch)
      throw StaticError.of('epoch_mismatch', `The message is for epoch ${parts.epoch}, but the group is in ${epoch}.`)
    const { leaf, generation, guard } = this.#senderData(parts.senderData, parts.ciphertext)
    if (expected.leaf !== undefined && leaf !== expected.leaf)
      throw failure(`The message is from leaf ${leaf}, but its envelope names the member at leaf ${expected.leaf}.`)
    const row = ratchets.get(leaf)
    if (row === undefined) throw failure(`The sender, leaf ${leaf}, is not a member.`)
    this.#expectRow(row, leaf)
    if (generation === MAX_GENERATION)
      throw failure(`Generation ${generation} is never used: its ratchet is exhausted.`)
    if (generation < row.generation)
      throw failure(`The message was already opened or skipped: generation ${generation}, next is ${row.generation}.`)
    const steps = generation - row.generation
    if (steps > expected.steps)
      throw failure(`The message is ${steps} generations ahead of its sender; at most ${expected.steps} are allowed.`)
    let { secret } = row
    for (let step = row.generation; step < generation; step++) {
      const skipped = secret
      secret = nextSecret(secret, step)
      if (skipped !== row.secret) skipped.fill(0)
    }
    const messageKey = this.#messageKey(secret, generation, guard)
    const next = nextSecret(secret, generation)
    if (secret !== row.secret) secret.fill(0)

    const content = opened(suite, messageKey, parts.contentData, parts.ciphertext)
    const { plaintext, signature } = partsOf(content)
    const verify = this.#verifier(leaf)
    const toBeSigned = this.#toBeSigned(leaf, parts.authenticatedData, plaintext)
    let isSigned = false
    try {
      isSigned = verify(toBeSigned, signature)
    } finally {
      toBeSigned.fill(0)
      if (!isSigned) content.fill(0)
    }
    if (!isSigned) throw failure(`The message is not signed by its sender, leaf ${leaf}.`)
    return {
      leaf,
      generation,
      plaintext,
      authenticatedData: parts.authenticatedData,
      messageKey,
      row: { ...row, generation: generation + 1, secret: next },
    }
  }

  #expectRow(row: RatchetRow, leaf: number): void {
    if (row.epoch !== this.#keys.epoch || row.leaf !== leaf)
      throw StaticError.of(
        'epoch_mismatch',
        `Ratchet of epoch ${row.epoch}, leaf ${row.leaf}; expected epoch ${this.#keys.epoch}, leaf ${leaf}.`,
      )
  }

  /** The AEAD key and nonce of a message. */
  #messageKey(secret: Uint8Array, generation: number, guard: Uint8Array): Uint8Array {
    const { keyBytes } = this.#keys.suite
    const key = new Uint8Array(keyBytes + NONCE_BYTES)
    ofGeneration(key, 0, this.#key, secret, generation)
    ofGeneration(key, keyBytes, NONCE, secret, generation)
    for (let at = 0; at < GUARD_BYTES; at++) key[keyBytes + at] = (key[keyBytes + at] ?? 0) ^ (guard[at] ?? 0)
    return key
  }

  /** The AEAD key and nonce of a message's sender data. */
  #senderDataKey(ciphertext: Uint8Array): Uint8Array {
    const { suite, senderDataSecret } = this.#keys
    const key = new Uint8Array(suite.keyBytes + NONCE_BYTES)
    ofSample(key, 0, this.#senderKey, senderDataSecret, ciphertext)
    ofSample(key, suite.keyBytes, SENDER_NONCE, senderDataSecret, ciphertext)
    return key
  }

  #senderData(sealed: Uint8Array, ciphertext: Uint8Array): { leaf: number; generation: number; guard: Uint8Array } {
    if (sealed.length !== SENDER_DATA_BYTES + TAG_BYTES || ciphertext.length < DIGEST_BYTES)
      throw failure(`Malformed message: ${sealed.length} bytes of sender data, ${ciphertext.length} of ciphertext.`)
    const data = opened(this.#keys.suite, this.#senderDataKey(ciphertext), this.#senderDataAad, sealed)
    const view = viewOf(data)
    return { leaf: view.getUint32(0), generation: view.getUint32(4), guard: data.subarray(8) }
  }

  /** SignContent of RFC 9420, section 5.1.2, over the FramedContentTBS of section 6.1. */
  #toBeSigned(leaf: number, authenticatedData: Uint8Array, plaintext: Uint8Array): Uint8Array {
    const { groupContext } = this.#keys
    const tbsBytes =
      this.#head.length +
      5 +
      lengthBytes(authenticatedData.length) +
      authenticatedData.length +
      1 +
      lengthBytes(plaintext.length) +
      plaintext.length +
      groupContext.length
    const bytes = signedContents.take(1 + SIGN_LABEL.length + lengthBytes(tbsBytes) + tbsBytes)
    let at = writeLength(bytes, 0, SIGN_LABEL.length)
    bytes.set(SIGN_LABEL, at)
    at = writeLength(bytes, at + SIGN_LABEL.length, tbsBytes)
    bytes.set(this.#head, at)
    at += this.#head.length
    bytes[at] = SENDER_MEMBER
    at = writeUint32(bytes, at + 1, leaf)
    at = writeLength(bytes, at, authenticatedData.length)
    bytes.set(authenticatedData, at)
    at += authenticatedData.length
    bytes[at] = CONTENT_TYPES.application
    at = writeLength(bytes, at + 1, plaintext.length)
    bytes.set(plaintext, at)
    bytes.set(groupContext, at + plaintext.length)
    return bytes
  }

  #verifier(leaf: number): Verifier {
    let verifier = this.#verifiers.get(leaf)
    if (verifier === undefined) {
      verifier = this.#keys.verifier(leaf)
      if (verifier === undefined) throw failure(`The sender, leaf ${leaf}, is not a member.`)
      this.#verifiers.set(leaf, verifier)
    }
    return verifier
  }
}

/**
 * Opens a message again with the message key from `seal` or `open`, which has already checked its signature.
 *
 * @throws {StaticError} `decryption_failure`
 */
export function reopen(suite: Suite, message: Uint8Array, messageKey: Uint8Array): Uint8Array {
  const parts = parsePrivateMessage(message)
  if (parts === undefined) throw failure(`Not an MLS PrivateMessage: ${message.length} bytes.`)
  return partsOf(opened(suite, messageKey, parts.contentData, parts.ciphertext)).plaintext
}

function opened(suite: Suite, key: Uint8Array, data: Uint8Array, sealed: Uint8Array): Uint8Array {
  try {
    return unseal(suite, key, data, sealed)
  } catch (cause) {
    throw failure('The message cannot be decrypted: wrong key, or altered bytes.', cause)
  }
}

/** PrivateMessageContent of RFC 9420, section 6.3.1. */
function partsOf(content: Uint8Array): { plaintext: Uint8Array; signature: Uint8Array } {
  const plaintext = readSpan(content, 0)
  const signature = plaintext && readSpan(content, plaintext.end)
  if (signature === undefined) throw failure('The decrypted message is malformed: it has no content or no signature.')
  const padding = content.subarray(signature.end)
  if (!isZero(padding)) throw failure('The padding of the message must be zeros.')
  return {
    plaintext: content.subarray(plaintext?.start, plaintext?.end),
    signature: content.subarray(signature.start, signature.end),
  }
}

function failure(message: string, cause?: unknown): StaticError {
  return StaticError.of('decryption_failure', message, cause === undefined ? {} : { cause })
}
