/**
 * Files: requests about them, and the parts that come and go by HTTP. The store decides about room and who may fetch;
 * here are the rates, and who pays.
 */
import { FILE_ID_BYTES, message, paddedFileBytes, StaticError } from '@static/protocol'
import {
  type BeginFileRequest,
  BeginFileResponseSchema,
  type DropFileRequest,
  DropFileResponseSchema,
  type FileState as WireState,
  FileStateSchema,
  type FileStatusRequest,
  FileStatusResponseSchema,
} from '@static/protocol/relay'
import type {
  Account,
  FileName,
  FilesPlace,
  FileState,
  PartAnswer,
  PartAsk,
  Refusal,
  StoreRequest,
} from '../../ports.ts'
import type { BlockedAccounts } from '../accounts/blocked-accounts.ts'
import type { Quota } from '../accounts/quota.ts'
import { accepted, actorOf, type ChannelContext } from '../channels/context.ts'
import { isUnknown } from '../effects.ts'
import type { Outcome } from '../io.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import { Rates } from '../requests/rates.ts'
import { channelIdOf, idOf, numberOf, wrong } from '../requests/request-fields.ts'
import { type RefusalDetails, refusalOf, tooOften } from '../server-messages.ts'
import type { SessionTokens, TokenCaller } from '../sessions/session-token.ts'
import { Egress } from './egress.ts'

/** Unsent files of an agent, and its transfers at a time. */
const OPEN_FILES = 8
const TRANSFERS = 4
/** BeginFile, FileStatus and DropFile of an agent in a minute. */
const REQUESTS_PER_MINUTE = 600
/** When to try again if an agent's transfers are all in use. */
const BUSY_MS = 1000

const SHAPED = 'A transfer cannot be shaped like this session. Open the agent with `visibleFiles` to accept that.'

/** The dependencies of files. */
export interface FilesContext extends Pick<ChannelContext, 'effects' | 'settings'> {
  readonly tokens: SessionTokens
  readonly quota: Quota
  readonly blocked: BlockedAccounts
  readonly place: () => FilesPlace
}

/** A transfer that was allowed. */
interface Transfer {
  readonly caller: TokenCaller
  readonly ask: PartAsk
  /** Pays for a part that is stored. */
  readonly payer: Account | undefined
}

/** The files of one node. */
export class Files {
  readonly #context: FilesContext
  readonly #transfers = new Map<number, Transfer>()
  readonly #counts = new Map<string, number>()
  readonly #egress = new Egress()
  readonly #rates = new Rates(REQUESTS_PER_MINUTE / 60, REQUESTS_PER_MINUTE)

  constructor(context: FilesContext) {
    this.#context = context
  }

  begin(request: PendingRequest, value: BeginFileRequest): void {
    const { effects, settings } = this.#context
    const { bytes, unsentMs, accountBytes, perChannel } = settings.files
    const name = this.#named(request, value)
    if (!name) return
    this.#checkPlace('put')
    this.#checkVisible(request, value.visible)
    const size = numberOf(value.size, 'size')
    if (size > bytes) throw StaticError.of('too_large', `A file may have ${bytes} bytes here, not ${size}.`)
    if (paddedFileBytes(size) !== size) throw wrong(`\`size\` must be a padded size, not ${size}`)
    const limits = { accountBytes, perChannel, open: OPEN_FILES, unsentMs }
    effects.store('beginFile', { ...name, actor: actorOf(request), size, limits, now: effects.now }, (outcome) => {
      const state = accepted(request, outcome)
      if (!state) return
      const fields = { state: wireState(state), sessionToken: this.#token(request) }
      request.answer({ case: 'beginFile', value: message(BeginFileResponseSchema, fields) })
    })
  }

  status(request: PendingRequest, value: FileStatusRequest): void {
    const { effects } = this.#context
    const name = this.#named(request, value)
    if (!name) return
    this.#checkPlace('get')
    this.#checkVisible(request, value.visible)
    effects.store('fileStatus', { ...name, actor: actorOf(request), now: effects.now }, (outcome) => {
      const state = accepted(request, outcome)
      if (!state) return
      const fields = { state: wireState(state), sessionToken: this.#token(request) }
      request.answer({ case: 'fileStatus', value: message(FileStatusResponseSchema, fields) })
    })
  }

  drop(request: PendingRequest, value: DropFileRequest): void {
    const { effects } = this.#context
    const { everyone } = value
    const name = this.#named(request, value)
    if (!name) return
    effects.store('dropFile', { ...name, actor: actorOf(request), everyone, now: effects.now }, (outcome) => {
      if (!accepted(request, outcome)) return
      request.answer({ case: 'dropFile', value: message(DropFileResponseSchema, {}) })
    })
  }

  // ---- Parts ----

  /** A request by HTTP. Answers with `go` if its bytes may pass; `over` follows then. */
  ask(id: number, ask: PartAsk): void {
    const { effects, tokens, blocked } = this.#context
    const caller = tokens.read(ask.token, effects.now)
    const expired = {
      refused: 'auth_failed',
      message: 'The session token has expired. FileStatus gives a new one.',
    } as const
    if (!caller) return this.#refuse(id, expired)
    const reason = blocked.stops(caller)
    if (reason !== undefined) return this.#refuse(id, { refused: reason })
    try {
      this.#checkPlace(ask.verb)
    } catch (error) {
      return this.#refuse(id, refusalOf(error))
    }
    if ((this.#counts.get(caller.agent) ?? 0) >= TRANSFERS) {
      const busy = `This agent has ${TRANSFERS} transfers already.`
      return this.#refuse(id, { refused: 'rate_limited', message: busy, retryAfterMs: BUSY_MS })
    }
    // From now on it counts, so that no burst passes while the store is asked.
    this.#transfers.set(id, { caller, ask, payer: undefined })
    this.#count(caller.agent, 1)
    if (ask.verb === 'put') this.#admit(id, caller, ask)
    else this.#find(id, caller, ask)
  }

  /** The bytes of a part are on disk. */
  stored(id: number, checksum: number): void {
    const { quota } = this.#context
    const transfer = this.#transfers.get(id)
    if (!transfer?.payer) return this.#answerRefusal(id, { refused: 'unavailable' })
    quota.take(transfer.payer, (taken) => {
      if ('refused' in taken) return this.#answerRefusal(id, taken)
      const { ask, caller } = transfer
      this.#context.effects.store('recordPart', { ...this.#request(caller, ask), checksum }, (outcome) => {
        const result = valueOf(outcome)
        // The outcome is unknown, so charge now: a repeat of a recorded part is free.
        if (isUnknown(outcome) || ('charged' in result && result.charged)) taken.use(caller.key)
        else taken.release()
        if ('refused' in result) this.#answerRefusal(id, result)
        else this.#answer(id, { type: 'recorded' })
      })
    })
  }

  /** A transfer has ended, however it did. */
  over(id: number): void {
    const transfer = this.#transfers.get(id)
    this.#transfers.delete(id)
    if (transfer) this.#count(transfer.caller.agent, -1)
  }

  #admit(id: number, caller: TokenCaller, ask: PartAsk): void {
    const { effects, quota } = this.#context
    effects.store('admitPart', this.#request(caller, ask), (outcome) => {
      const result = valueOf(outcome)
      if ('refused' in result) return this.#refuse(id, result)
      const { key, bytes, stored, payer } = result
      const go = (): void => {
        this.#transfers.set(id, { caller, ask, payer })
        this.#answer(id, { type: 'go', key, bytes, stored, token: this.#renewed(caller) })
      }
      if (stored !== undefined) return go()
      // Not kept: a slow body would hold it. It is taken again when the bytes are there.
      quota.take(payer, (taken) => {
        if ('refused' in taken) return this.#refuse(id, taken)
        taken.release()
        go()
      })
    })
  }

  #find(id: number, caller: TokenCaller, ask: PartAsk): void {
    const { effects } = this.#context
    effects.store('findPart', this.#request(caller, ask), (outcome) => {
      const result = valueOf(outcome)
      if ('refused' in result) return this.#refuse(id, result)
      const { key, bytes, total } = result
      const wait = this.#egress.take(caller.agent, key, bytes, total, effects.monotonic)
      if (wait > 0) {
        const often = 'This agent has fetched the file four times within an hour.'
        return this.#refuse(id, { refused: 'rate_limited', message: often, retryAfterMs: wait })
      }
      this.#answer(id, { type: 'go', key, bytes, stored: undefined, token: this.#renewed(caller) })
    })
  }

  #request({ agent, account }: TokenCaller, { channel, file, part }: PartAsk): StoreRequest<'admitPart'> {
    return { channel, file, part, actor: { agent, account }, now: this.#context.effects.now }
  }

  #renewed(caller: TokenCaller): string | undefined {
    return this.#context.tokens.renew(caller, this.#context.effects.now)
  }

  #answer(id: number, answer: PartAnswer): void {
    this.#context.effects.part(id, answer)
  }

  #answerRefusal(id: number, refusal: RefusalDetails): void {
    this.#answer(id, { type: 'refused', refusal })
  }

  /** Refuses a transfer before it has begun: no `over` follows. */
  #refuse(id: number, refusal: RefusalDetails): void {
    this.over(id)
    this.#answerRefusal(id, refusal)
  }

  #count(agent: string, change: 1 | -1): void {
    const count = (this.#counts.get(agent) ?? 0) + change
    if (count > 0) this.#counts.set(agent, count)
    else this.#counts.delete(agent)
  }

  // ---- Checks ----

  /** The file that a request names; undefined if its agent makes too many, which it has been told. */
  #named(
    request: PendingRequest,
    { channelId, fileId }: { readonly channelId: Uint8Array; readonly fileId: Uint8Array },
  ): FileName | undefined {
    const wait = this.#rates.take(request.caller.agent, this.#context.effects.monotonic)
    if (wait > 0) {
      request.refuse(tooOften(REQUESTS_PER_MINUTE, 'requests about files', wait))
      return undefined
    }
    return { channel: channelIdOf(channelId), file: idOf(fileId, FILE_ID_BYTES, 'file_id') }
  }

  #checkPlace(verb: PartAsk['verb']): void {
    const place = this.#context.place()
    if (place === 'none') throw StaticError.of('files_unavailable')
    if (place === 'full' && verb === 'put') {
      throw StaticError.of('files_unavailable', 'The relay has too little disk for files. Retry later.')
    }
  }

  #checkVisible({ stream: { session } }: PendingRequest, visible: boolean): void {
    const isShaped = session?.traffic === 'private' || session?.traffic === 'strict'
    if (isShaped && !visible) throw StaticError.of('not_allowed', SHAPED)
  }

  #token({ caller }: PendingRequest): string {
    const { tokens, effects } = this.#context
    const openedAt = 'openedAt' in caller ? (caller as TokenCaller).openedAt : effects.now
    return tokens.make(caller, openedAt, effects.now).token
  }
}

function valueOf<Value>(outcome: Outcome<Value>): Value | Refusal {
  return outcome.ok ? outcome.value : refusalOf(outcome.error)
}

function wireState({ size, parts, sent, expiresAt }: FileState): WireState {
  return message(FileStateSchema, { size: BigInt(size), parts, sent, expiresAtMs: BigInt(expiresAt) })
}
