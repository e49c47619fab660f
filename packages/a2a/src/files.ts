/**
 * Parts of A2A that are too large for a message (docs/a2a-binding.md): `raw` of more than 64 KiB goes as a file of the
 * channel, and `url` names it: `static-file:` and the file's id. The other side puts `raw` back, so that neither program
 * sees the difference. Only files of the member that has made the call or answer are taken, and a bounded number of
 * bytes, because they are held in memory; others keep their `url`.
 */
import { StaticError } from '@static/protocol'
import type { AgentId, Channel, ReceivedFile } from '@static/sdk'
import { isObject } from './envelope.ts'

const SCHEME = /^static-file:([0-9a-f]{32})$/
/** More decoded bytes go as a file. */
const LARGE_BYTES = 65_536
/** Files of one call or response, and their bytes together. */
const MOST_FILES = 64
const MOST_BYTES = 32 * 1024 * 1024
/** Calls with files that are handled at once, until their first response; and those of one member. */
const MOST_CALLS = 4
const MOST_CALLS_OF_ONE = 2
const MOST_NAME_BYTES = 200
/** Members whose content A2A leaves to the program. */
const FREE: ReadonlySet<string> = new Set(['data', 'metadata'])
/** The relay or this agent takes no files: the part goes as it is, if it fits. */
const WITHOUT: ReadonlySet<string> = new Set(['files_unavailable', 'not_allowed'])
const USUAL_NAME = 'file'

type JsonObject = Record<string, unknown>

/** Sends the large parts of a call or response as files, and returns it with their names. */
export async function sendLargeParts(channel: Channel, text: string, signal?: AbortSignal): Promise<string> {
  // Base64 takes a third more.
  if (text.length <= LARGE_BYTES) return text
  const value: unknown = JSON.parse(text)
  let isChanged = false
  for (const part of partsIn(value)) {
    const { raw } = part
    if (typeof raw !== 'string') continue
    const bytes = Buffer.from(raw, 'base64')
    if (bytes.length <= LARGE_BYTES) continue
    const id = await sendPart(channel, part, bytes, signal)
    if (id === undefined) return text
    delete part['raw']
    part['url'] = `static-file:${id}`
    isChanged = true
  }
  return isChanged ? JSON.stringify(value) : text
}

/** Puts the large parts back that a member has sent as files, in place. Returns these files, to be dropped. */
export async function restoreLargeParts(
  channel: Channel,
  sender: AgentId,
  value: unknown,
): Promise<readonly ReceivedFile[]> {
  const restored: ReceivedFile[] = []
  let total = 0
  let known: ReadonlyMap<string, ReceivedFile> | undefined
  for (const part of partsIn(value)) {
    const id = typeof part['url'] === 'string' ? SCHEME.exec(part['url'])?.[1] : undefined
    if (id === undefined) continue
    known ??= new Map(channel.files().flatMap((file) => (file.sender.agentId === sender ? [[file.id, file]] : [])))
    const file = known.get(id)
    if (!file || restored.length === MOST_FILES || total + file.size > MOST_BYTES) continue
    total += file.size
    part['raw'] = Buffer.concat(await Array.fromAsync(file.stream())).toString('base64')
    delete part['url']
    restored.push(file)
  }
  return restored
}

/** Drops files that were put back. The relay may have forgotten them. */
export async function dropFiles(files: readonly ReceivedFile[]): Promise<void> {
  for (const file of new Set(files)) await file.drop().catch(() => {})
}

/** The parts of messages and artifacts in a call or response. Does not recurse. */
function* partsIn(root: unknown): Generator<JsonObject> {
  const pending: unknown[] = [root]
  for (let at = 0; at < pending.length; at++) {
    const value = pending[at]
    if (Array.isArray(value)) pending.push(...value.filter((each) => typeof each === 'object'))
    if (!isObject(value)) continue
    for (const [key, child] of Object.entries(value)) {
      if (key === 'parts' && Array.isArray(child)) yield* child.filter(isObject)
      else if (!FREE.has(key) && typeof child === 'object' && child !== null) pending.push(child)
    }
  }
}

/** The id of the file; undefined if none can be sent. */
async function sendPart(
  channel: Channel,
  { filename, mediaType }: JsonObject,
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const isName = typeof filename === 'string' && filename !== '' && filename.isWellFormed()
  const name = isName && Buffer.byteLength(filename) <= MOST_NAME_BYTES ? filename : USUAL_NAME
  const type = typeof mediaType === 'string' && /^[\x20-\x7e]{0,127}$/.test(mediaType) ? mediaType : ''
  try {
    const sent = await channel.sendFile(only(bytes), { name, type, ...(signal && { signal }) })
    return sent.fileId
  } catch (error) {
    if (error instanceof StaticError && WITHOUT.has(error.code)) return undefined
    throw error
  }
}

async function* only(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes
}

/** Whether there may be files to put back. */
export function namesFiles(value: unknown): boolean {
  return partsIn(value).some(({ url }) => typeof url === 'string' && SCHEME.test(url))
}

/** Lets few calls with files be handled at once, because their bytes are in memory. No member takes all places. */
export class FileTurns {
  readonly #taken: AgentId[] = []
  readonly #waiting: { readonly sender: AgentId; readonly go: () => void }[] = []

  /** Resolves when a call may be handled, to what ends its turn. */
  async take(sender: AgentId): Promise<() => void> {
    await new Promise<void>((go) => {
      this.#waiting.push({ sender, go })
      this.#next()
    })
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#taken.splice(this.#taken.indexOf(sender), 1)
      this.#next()
    }
  }

  #next(): void {
    while (this.#taken.length < MOST_CALLS) {
      const of = (sender: AgentId): number => this.#taken.filter((each) => each === sender).length
      const at = this.#waiting.findIndex(({ sender }) => of(sender) < MOST_CALLS_OF_ONE)
      const [first] = at < 0 ? [] : this.#waiting.splice(at, 1)
      if (!first) return
      this.#taken.push(first.sender)
      first.go()
    }
  }
}
