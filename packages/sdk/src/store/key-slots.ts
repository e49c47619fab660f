/**
 * The slots that open an agent's database: any one of them does, as in LUKS. Adding and removing them leaves the
 * database's key as it is: a removed slot, from an old copy of keys.json, still opens the database with its own key.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { createFile, replaceFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { connect, databaseFile } from './connection.ts'
import {
  ensureKeyFile,
  KEY_BYTES,
  type KeySource,
  makeKeyringKey,
  newStretching,
  readKeyFile,
  readKeyring,
  stretch,
} from './key-sources.ts'
import { ensurePrivateDirectory, privateFileSize } from './private-files.ts'
import {
  encodeSlots,
  type KeySlot,
  readSlots,
  slotFile,
  type SlotHeader,
  unwrapKey,
  type WrappedSlot,
  wrapKey,
} from './slot-file.ts'

/** Every passphrase slot costs an attempt of half a second. */
const SLOT_LIMIT = 8

const NAMES: Readonly<Record<KeySlot['type'], string>> = {
  file: 'key file',
  passphrase: 'passphrase',
  keyring: 'keyring',
}

/**
 * The key of the database in a directory; for a new directory one is made, with one slot. The caller wipes it.
 *
 * Throws `store_key_wrong`, `store_permissions` or `store_corrupt`.
 */
export async function openDatabaseKey(directory: string, source: KeySource): Promise<Buffer> {
  // In this order: the slots are made before the database, so one without the other is a loss, not a start.
  const started = (privateFileSize(databaseFile(directory)) ?? 0) > 0
  const path = slotFile(directory)
  sweepLeftovers(path)
  const slots = readSlots(directory)
  if (slots !== undefined) return (await unlock(directory, slots, source)).key
  if (started) {
    throw new StaticError('store_key_wrong', `${path} is missing: without it the database beside it cannot be opened.`)
  }
  const key = randomBytes(KEY_BYTES)
  const slot = await makeSlot(directory, source, key)
  if (createFile(path, encodeSlots([slot]), 0o600)) return key
  // Another process was quicker; whatever it made is what counts.
  key.fill(0)
  return (await unlock(directory, readSlots(directory) ?? [], source)).key
}

/**
 * The key slots of an agent's directory, without opening any. The agent may run.
 *
 * @throws {StaticError} `not_found` if there is no agent, `store_permissions`, `store_corrupt`
 */
export function listKeySlots(directory: string): readonly KeySlot[] {
  return existingSlots(resolve(directory)).map(({ id, type }) => ({ id, type }))
}

/**
 * Adds a slot: from then on `added` opens the agent, too. A key file that does not exist is made. The agent must not run.
 *
 * @throws {StaticError} `store_key_wrong` if `by` does not open the agent, `store_locked` if it runs, `invalid_request`
 *   for a ninth slot or an empty passphrase, `not_found` if there is no agent
 * @example
 * await addKeySlot('./agent', { type: 'file' }, { type: 'passphrase', passphrase })
 */
export async function addKeySlot(directory: string, by: KeySource, added: KeySource): Promise<KeySlot> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  if (slots.length >= SLOT_LIMIT) {
    throw new StaticError(
      'invalid_request',
      `The agent in ${place} has ${slots.length} key slots, and there can be no more. Remove one first.`,
    )
  }
  const opened = await unlock(place, slots, by)
  return await withLock(place, slots, opened.key, async () => {
    const slot = await makeSlot(place, added, opened.key)
    replaceSlots(place, [...slots, slot])
    return { id: slot.id, type: slot.type }
  })
}

/**
 * Replaces the slot that `by` opens by one for `added`, in one step: the way to change a passphrase. As `addKeySlot`.
 *
 * @example
 * await replaceKeySlot('./agent', { type: 'passphrase', passphrase: old }, { type: 'passphrase', passphrase: next })
 */
export async function replaceKeySlot(directory: string, by: KeySource, added: KeySource): Promise<KeySlot> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  const opened = await unlock(place, slots, by)
  return await withLock(place, slots, opened.key, async () => {
    const slot = await makeSlot(place, added, opened.key)
    replaceSlots(
      place,
      slots.map((old) => (old.id === opened.id ? slot : old)),
    )
    return { id: slot.id, type: slot.type }
  })
}

/**
 * Removes a slot. `by` must open one that stays, so that nobody is locked out. The key file, or the keyring's entry, is
 * left to the caller to delete. The agent must not run.
 *
 * @throws {StaticError} `store_key_wrong` if `by` opens no slot that stays, `not_found` if there is no such slot,
 *   `invalid_request` for the last one, `store_locked`
 */
export async function removeKeySlot(directory: string, by: KeySource, id: string): Promise<void> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  const rest = slots.filter((slot) => slot.id !== id)
  if (rest.length === slots.length) {
    const ids = slots.map((slot) => slot.id).join(', ')
    throw StaticError.of('not_found', `The agent in ${place} has no key slot ${id}. It has ${ids}.`)
  }
  if (rest.length === 0) {
    throw new StaticError(
      'invalid_request',
      `${id} is the last key slot of the agent in ${place}: without it nothing opens the agent. Add another one first.`,
    )
  }
  const opened = await unlock(place, rest, by)
  await withLock(place, slots, opened.key, () => Promise.resolve(replaceSlots(place, rest)))
}

function existingSlots(directory: string): readonly WrappedSlot[] {
  const none = (): StaticError => StaticError.of('not_found', `There is no agent in ${directory}. Check the directory.`)
  // Looked for first: the check of its permissions would make it.
  if (!existsSync(directory)) throw none()
  ensurePrivateDirectory(directory)
  const slots = readSlots(directory)
  if (slots === undefined) throw none()
  return slots
}

/**
 * Changes the slots while no agent, and no other change, can open the database; that it opens shows that the key, which
 * the new slots will hold, is the right one. Wipes the key.
 */
async function withLock<Result>(
  directory: string,
  expected: readonly WrappedSlot[],
  key: Buffer,
  change: () => Promise<Result>,
): Promise<Result> {
  try {
    const database = connect(databaseFile(directory), key)
    try {
      if (encodeSlots(existingSlots(directory)) !== encodeSlots(expected)) {
        throw new StaticError('store_locked', 'Another process has changed the key slots in the meantime. Try again.')
      }
      return await change()
    } finally {
      database.close()
    }
  } finally {
    key.fill(0)
  }
}

/** In one step: a crash leaves the slots of before or those of after. */
function replaceSlots(directory: string, slots: readonly WrappedSlot[]): void {
  replaceFile(slotFile(directory), encodeSlots(slots), 0o600)
}

/** The database's key out of the first slot that the source opens, and which one that is. */
async function unlock(
  directory: string,
  slots: readonly WrappedSlot[],
  source: KeySource,
): Promise<{ readonly key: Buffer; readonly id: string }> {
  let tried = false
  for (const slot of slots) {
    const slotKey = await slotKeyOf(directory, slot, source)
    if (slotKey === undefined) continue
    const key = unwrapKey(slot, slotKey)
    slotKey.fill(0)
    if (key !== undefined) return { key, id: slot.id }
    tried = true
  }
  if (tried) {
    throw new StaticError(
      'store_key_wrong',
      `This ${NAMES[source.type]} does not open the agent in ${directory}. Give one that was added to it.`,
    )
  }
  const types = [...new Set(slots.map((slot) => NAMES[slot.type]))].join(' or ')
  throw new StaticError(
    'store_key_wrong',
    `A ${NAMES[source.type]} does not open the agent in ${directory}. Open it by ${types}.`,
  )
}

/** Undefined if the slot is for a source of another type. */
async function slotKeyOf(directory: string, slot: SlotHeader, source: KeySource): Promise<Buffer | undefined> {
  if (slot.type === 'file' && source.type === 'file') return readKeyFile(directory, source.path)
  if (slot.type === 'keyring' && source.type === 'keyring') return await readKeyring(source.keyring, slot.id)
  if (slot.type === 'passphrase' && source.type === 'passphrase')
    return await stretch(source.passphrase, slot.stretching)
  return undefined
}

async function makeSlot(directory: string, source: KeySource, key: Uint8Array): Promise<WrappedSlot> {
  const { header, slotKey } = await newSlotKey(directory, source)
  try {
    return wrapKey(header, slotKey, key)
  } finally {
    slotKey.fill(0)
  }
}

async function newSlotKey(directory: string, source: KeySource): Promise<{ header: SlotHeader; slotKey: Buffer }> {
  const id = randomBytes(8).toString('hex')
  switch (source.type) {
    case 'file':
      return { header: { id, type: 'file' }, slotKey: ensureKeyFile(directory, source.path) }
    case 'passphrase': {
      if (source.passphrase === '')
        throw new StaticError('invalid_request', 'The passphrase is empty. Choose a longer one.')
      const stretching = newStretching()
      return { header: { id, type: 'passphrase', stretching }, slotKey: await stretch(source.passphrase, stretching) }
    }
    case 'keyring':
      return { header: { id, type: 'keyring' }, slotKey: await makeKeyringKey(source.keyring, id) }
  }
}
