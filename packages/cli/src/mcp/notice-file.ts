/**
 * Notices that no model has confirmed, in a file: the agent reports each event once, and a session may end before its
 * model has asked for them.
 */
import { join } from 'node:path'
import { readPrivateFile, replaceFile } from '@static/node/files'
import { isChannelName } from '@static/protocol'
import { isNotice, type Notice } from './notices.ts'

export interface ChannelNotice {
  readonly channel: string
  readonly notice: Notice
}

/** The limit for all channels together. Members can cause notices, and each is a write. */
const MOST_KEPT = 200
const NAME = 'notices.json'

/** The notices of an agent. */
export class NoticeFile {
  readonly #path: string
  #kept: readonly ChannelNotice[]

  constructor(agentDirectory: string) {
    this.#path = join(agentDirectory, NAME)
    this.#kept = read(this.#path)
  }

  /** The notices from earlier sessions and from this one. */
  get kept(): readonly ChannelNotice[] {
    return this.#kept
  }

  /** If there are too many, a fork and the end of a channel replace a less important notice. */
  add(added: ChannelNotice): void {
    if (this.#kept.some(({ notice }) => notice === added.notice)) return
    const lesser = this.#kept.length < MOST_KEPT ? undefined : this.#kept.find(isLesser)
    if (this.#kept.length >= MOST_KEPT && (!lesser || isLesser(added))) return
    this.#write([...this.#kept.filter((kept) => kept !== lesser), added])
  }

  /** The model has confirmed these notices. */
  remove(settled: readonly Notice[]): void {
    const left = this.#kept.filter(({ notice }) => !settled.includes(notice))
    if (left.length < this.#kept.length) this.#write(left)
  }

  #write(kept: readonly ChannelNotice[]): void {
    this.#kept = kept
    try {
      replaceFile(this.#path, JSON.stringify(kept), 0o600)
    } catch {
      // On a full disk, they last only as long as the session.
    }
  }
}

function read(path: string): readonly ChannelNotice[] {
  try {
    const found: unknown = JSON.parse(readPrivateFile(path)?.toString() ?? '[]')
    return Array.isArray(found) ? found.filter(isKept).slice(0, MOST_KEPT) : []
  } catch {
    // Damaged, or not ours.
    return []
  }
}

function isLesser({ notice: { notice } }: ChannelNotice): boolean {
  return notice === 'gap' || notice === 'key_changed'
}

function isKept(value: unknown): value is ChannelNotice {
  if (typeof value !== 'object' || value === null || !('channel' in value) || !('notice' in value)) return false
  return isChannelName(value.channel) && isNotice(value.notice)
}
