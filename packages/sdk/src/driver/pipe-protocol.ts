/**
 * The calls and notices of a program, and the messages of the driver to it: the headers of the frames of
 * `pipe-frame.ts`.
 */
import type { ReceiptLevel } from '../channel/receipts/reached.ts'
import type { ProofOption } from '../account/trust/desk.ts'
import type { AddOptions } from '../public/options/channel-options.ts'
import type { SendFileOptions } from '../public/options/file-options.ts'
import type { InviteOptions, ShowOptions } from '../public/options/invite-options.ts'
import type { ClientOptions } from '../gen/client-options.ts'
import type { Environment } from '../account/places.ts'
import type { KeySource } from '../store/keys/sources.ts'

/**
 * The options of a client. Keyrings and loggers consist of functions, which a program in another language cannot pass. Of
 * a function that gets tokens, it says that there is one: the driver asks with `mint`.
 */
export type DriverOptions = Omit<ClientOptions, 'identity' | 'key' | 'logger' | 'proof'> & {
  readonly proof?: Exclude<ProofOption, (...args: never[]) => unknown> | { readonly mint: true }
  readonly key?: Exclude<KeySource, { readonly type: 'keyring' }>
}

/** What an agent shows in a channel. */
type Shown = Pick<ShowOptions, 'show'>

/** A channel: the number that the driver gave it, or its name, from a program that did not ask for the number. */
export type ChannelRef = number | string

/** Calls of a client, and of the iterators and offers that it has returned. */
type ClientCall =
  /**
   * Bytes: the identity, if `hasIdentity` is set. `environment` is the program's, which may have changed since the
   * driver started.
   */
  | {
      readonly do: 'connect'
      readonly options: DriverOptions
      readonly environment: Environment
      readonly hasIdentity: boolean
    }
  | ({ readonly do: 'createChannel'; readonly name: string } & Shown & Pick<InviteOptions, 'require'>)
  | { readonly do: 'channel'; readonly name: string }
  | { readonly do: 'channels' | 'generateKeyPackage' | 'events' | 'joins' }
  /** Bytes: the Welcome. */
  | ({ readonly do: 'joinChannel'; readonly name: string; readonly owner?: string } & Shown)
  /** Bytes: the payload. */
  | { readonly do: 'sendTo'; readonly name: string; readonly timeout?: number }
  /** Answered when the channel ends. */
  | { readonly do: 'handle'; readonly on: number; readonly concurrency: number; readonly attempts: number }
  /** Answered when the channel ends. */
  | { readonly do: 'serve'; readonly on: ChannelRef; readonly concurrency: number; readonly perAsker: number }
  | { readonly do: 'next' | 'return' | 'decline'; readonly on: number }
  | (Shown & { readonly do: 'accept'; readonly on: number })

/** Calls of a channel. */
export type ChannelCall =
  /** Bytes: the payload. */
  | { readonly do: 'send'; readonly on: ChannelRef; readonly timeout?: number }
  | { readonly do: 'waitForMember'; readonly on: ChannelRef; readonly agentId?: string; readonly timeout?: number }
  /**
   * Each member is an agent id, or the start and end of a KeyPackage in the bytes. The answer has the lengths of the
   * Welcomes; its bytes are the Welcomes.
   */
  | {
      readonly do: 'addMembers'
      readonly on: ChannelRef
      readonly members: readonly (string | readonly [start: number, end: number])[]
      readonly acceptNewKey: boolean
      readonly require?: Exclude<AddOptions['require'], undefined>
    }
  | {
      readonly do: 'removeMember' | 'vouch' | 'liftBar' | 'transfer'
      readonly on: ChannelRef
      readonly agentId: string
    }
  /** Without an agent id, there is no standby. */
  | { readonly do: 'setStandby'; readonly on: ChannelRef; readonly agentId?: string }
  /** Bytes: the identity. */
  | { readonly do: 'acceptNewKey'; readonly on: ChannelRef; readonly agentId: string }
  | { readonly do: 'rejectCommit'; readonly on: ChannelRef; readonly slot: number }
  | {
      readonly do: 'reached'
      readonly on: ChannelRef
      readonly messageId: string
      readonly index: number
      readonly level: ReceiptLevel
      readonly by?: readonly string[]
      readonly timeout?: number
    }
  | {
      readonly do:
        | 'members'
        | 'receipts'
        | 'rotate'
        | 'resetRoster'
        | 'leave'
        | 'delete'
        | 'catchUp'
        | 'verify'
        | 'confirmed'
        | 'ownership'
        | 'takeOver'
        | 'acceptFork'
        | 'close'
      readonly on: ChannelRef
    }

/** The place of a message that was put aside. */
export interface PoisonPlace {
  readonly index: number
  readonly messageId: string
}

/** Calls about the messages that a channel has put aside. */
export type PoisonCall =
  /** The next messages after a given one. Bytes of the answer: their payloads, concatenated. */
  | { readonly do: 'poison'; readonly on: ChannelRef; readonly after: PoisonPlace }
  | { readonly do: 'retryPoison' | 'dropPoison'; readonly on: ChannelRef; readonly message: string }

/** Calls about requests and answers. */
export type AskCall =
  /** Bytes: the payload. */
  | { readonly do: 'ask'; readonly on: ChannelRef; readonly to?: string; readonly timeout?: number }
  /** Bytes: the payload. The answer is that of `nextAnswer`. */
  | { readonly do: 'askOne'; readonly on: ChannelRef; readonly to: string; readonly timeout?: number }
  | { readonly do: 'asked'; readonly on: ChannelRef }
  /** `on` is the number of a request. Bytes of the answer to `nextAnswer`: the payload. */
  | { readonly do: 'nextAnswer' | 'cancelAsk'; readonly on: number }
  /** An answer to another member's request. Bytes: the payload. The result is whether the asker wants more. */
  | { readonly do: 'answer'; readonly token: number }

/** Calls about files. `index` is that of the file's message; paths are absolute. */
export type FileCall =
  /** Answered when the relay has stored the message. Events: `progress`. */
  | ({ readonly do: 'sendFile'; readonly on: ChannelRef; readonly path: string } & Pick<
      SendFileOptions,
      'name' | 'type' | 'text'
    >)
  | { readonly do: 'files'; readonly on: ChannelRef }
  /** Events: `progress`. The result is the path. */
  | { readonly do: 'saveFile'; readonly on: ChannelRef; readonly index: number; readonly path: string }
  | { readonly do: 'dropFile'; readonly on: ChannelRef; readonly index: number }
  | { readonly do: 'deleteFile'; readonly on: ChannelRef; readonly file: string }
  /** The result is a number for `nextBytes`, whose result is whether the file has ended, and for `leaveFile`. */
  | { readonly do: 'readFile'; readonly on: ChannelRef; readonly index: number }
  | { readonly do: 'nextBytes' | 'leaveFile'; readonly on: ChannelRef; readonly reading: number }

/** How an invite can be used. */
type InviteTerms = Required<Omit<InviteOptions, 'require'>> & Pick<InviteOptions, 'require'>

/** Calls about invites. */
export type InviteCall =
  | ({ readonly do: 'invite'; readonly name: string } & InviteTerms)
  | ({ readonly do: 'inviteLink'; readonly name: string; readonly endpoint?: string } & InviteTerms)
  | ({ readonly do: 'joinWithLink'; readonly link: string; readonly timeout: number } & Shown)
  | ({ readonly do: 'joinWithToken'; readonly name: string; readonly token: string; readonly timeout: number } & Shown)
  | { readonly do: 'invites'; readonly name: string }
  | { readonly do: 'revokeInvite'; readonly token: string }

/** A call, answered under its id. `on` is the number of a channel, an iterator or an offer. */
export type Call = ClientCall | ChannelCall | PoisonCall | AskCall | FileCall | InviteCall

/** The result of a call. */
export interface CallResult {
  readonly result?: unknown
  readonly bytes?: Uint8Array
}

/**
 * Messages without an answer: ask for more payloads, settle some, report which were passed on or handled, cancel a
 * call.
 */
export type Notice =
  | { readonly do: 'more'; readonly on: number; readonly count: number; readonly run: number }
  | { readonly do: 'settle'; readonly on: number; readonly tokens: readonly number[] }
  /** Returns payloads that no reader has taken, and ends the waits requested before a run. */
  | { readonly do: 'recall'; readonly on: number; readonly tokens: readonly number[]; readonly before: number }
  | { readonly do: 'given'; readonly on: number; readonly upTo: number }
  /** The program ends in order: its readers have seen nothing beyond what it reported as given. */
  | { readonly do: 'bye' }
  /** `isUnfit`: the payload does not fit the program's schema, so the message is put aside at once. */
  | {
      readonly do: 'handled'
      readonly on: number
      readonly token: number
      readonly error?: string
      readonly isUnfit?: boolean
    }
  /** A request is fully answered. An error with a code is for the asker, an error without one is not. */
  | {
      readonly do: 'answered'
      readonly token: number
      readonly error?: { readonly code?: string; readonly message: string }
    }
  /** The token for an audience, or why the program has none. */
  | { readonly do: 'minted'; readonly token: number; readonly jwt?: string; readonly error?: string }
  /**
   * Ends the wait of a pending `send`, `sendFile`, `saveFile`, `sendTo`, `waitForMember`, `reached`, `catchUp`, `handle` or `serve`, which is
   * still answered.
   */
  | { readonly do: 'cancel'; readonly call: number }

/** An error for the program to raise. */
export interface PlainError {
  readonly code: string
  readonly message: string
  readonly docUrl?: string
  readonly cause?: { readonly code?: string; readonly message: string }
}

/** A member; its proof has `shown`, the name that we make of it. */
export interface PlainMember {
  readonly agentId: string
  readonly fingerprint: string
  readonly identity: string
  readonly proof?: object
}

/** The common fields of messages, requests and answers. */
export interface ReceivedFields {
  readonly sender: PlainMember
  readonly messageId: string
  readonly index: number
  readonly epoch: number
  readonly time: number
}

/** A file of another member. */
export interface PlainFile {
  readonly id: string
  readonly name: string
  readonly safeName: string
  readonly type: string
  readonly size: number
}

/** A message without its payload; `token` settles it. */
export interface MessageFields extends ReceivedFields {
  readonly file?: PlainFile
  readonly on: number
  readonly token: number
  readonly redelivered: boolean
}

/** Messages of the driver. */
export type DriverMessage =
  | { readonly id: number; readonly result?: unknown; readonly error?: PlainError }
  /** Bytes: the payload. `run` is that of the `more` that asked for it. */
  | (MessageFields & { readonly event: 'payload'; readonly run: number })
  /** Bytes: the payload, for the handler of a `handle` call. */
  | (MessageFields & { readonly event: 'handle'; readonly call: number })
  /** Bytes: the payload of a request, for the handler of a `serve` call. */
  | (ReceivedFields & {
      readonly event: 'serve'
      readonly call: number
      readonly token: number
      readonly isToMe: boolean
      readonly deadline: number
      readonly redelivered: boolean
    })
  /** How far a `sendFile` or `saveFile` call is. */
  | { readonly event: 'progress'; readonly call: number; readonly bytes: number; readonly size: number }
  /** The asker wants no more answers to a request. */
  | { readonly event: 'cancelled'; readonly call: number; readonly token: number }
  /** A requested payload will not come. */
  | { readonly event: 'ended'; readonly on: number; readonly run: number; readonly error?: PlainError }
  /** The program is to get a token for a proof: `minted` answers. */
  | { readonly event: 'mint'; readonly token: number; readonly audience: string }
  /** The manager no longer answers join requests. */
  | { readonly event: 'died'; readonly error: PlainError }

/** Sends a message to the program. */
export type Tell = (message: DriverMessage, bytes?: Uint8Array) => void
