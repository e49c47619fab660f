/** Messages: each is stored with a unit of its payer's quota, and answered once it is durable. */
import { FILE_ID_BYTES, message as wireMessage, MESSAGE_ID_BYTES } from '@static/protocol'
import { type SendMessageRequest, SendMessageResponseSchema } from '@static/protocol/relay'
import { type Account, accountKey, type ChannelId, type Refusal, type StoreRequest } from '../../ports.ts'
import { isUnknown } from '../effects.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import type { Quota, Unit } from '../accounts/quota.ts'
import { channelIdOf, checkLength, idOf, numberOf } from '../requests/request-fields.ts'
import { wireLaggard } from '../server-messages.ts'
import { accepted, actorOf, type ChannelContext } from './context.ts'

type UnpaidMessage = Omit<StoreRequest<'append'>, 'paid'>

/** An account that was asked for a unit of its quota, and its answer. */
interface Payment {
  readonly payer: Account
  readonly taken: Unit | Refusal
}

/** Number of channels whose payer is cached. */
const MAX_PAYERS = 100_000

export class Messages {
  readonly #context: ChannelContext
  readonly #quota: Quota
  /** The account that pays for the guests of a channel, as reported by the store. */
  readonly #payers = new Map<ChannelId, Account>()

  constructor(context: ChannelContext, quota: Quota) {
    this.#context = context
    this.#quota = quota
  }

  send(request: PendingRequest, value: SendMessageRequest): void {
    const { account } = request.caller
    const { fileId } = value
    const file = fileId && {
      id: idOf(fileId, FILE_ID_BYTES, 'file_id'),
      keptMs: this.#context.settings.files.keptMs,
    }
    const message: UnpaidMessage = {
      actor: actorOf(request),
      channel: channelIdOf(value.channelId),
      slot: numberOf(value.slot, 'slot'),
      messageId: value.messageId,
      counter: numberOf(value.counter, 'counter'),
      control: value.control,
      ciphertext: value.ciphertext,
      file,
      now: this.#context.effects.now,
    }
    checkLength(value.messageId, MESSAGE_ID_BYTES, 'message_id')
    const payer = account ?? this.#payers.get(message.channel)
    // Even for messages that may be free: a single path keeps an agent's messages in order while a lease is pending.
    if (payer) this.#pay(request, message, payer)
    else this.#append(request, message)
  }

  rememberPayer(channel: ChannelId, account: Account): void {
    // Only a cache: losing an entry costs one extra call to the store.
    if (this.#payers.size >= MAX_PAYERS) this.#payers.clear()
    this.#payers.set(channel, account)
  }

  /** Drops cached data of a deleted channel. */
  forget(channel: ChannelId): void {
    this.#payers.delete(channel)
  }

  /** Appends with a unit of the payer's quota. Without one, asks the store anyway: another refusal takes precedence. */
  #pay(request: PendingRequest, message: UnpaidMessage, payer: Account): void {
    this.#quota.take(payer, (taken) => {
      this.#append(request, message, { payer, taken })
    })
  }

  #append(request: PendingRequest, message: UnpaidMessage, { payer, taken }: Partial<Payment> = {}): void {
    const [unit, noUnit] = taken && 'refused' in taken ? [undefined, taken] : [taken, undefined]
    this.#context.effects.store('append', { ...message, paid: unit && payer }, (outcome) => {
      const result = accepted(request, outcome)
      // The outcome is unknown, so charge now: a retry of a stored message is free.
      if (isUnknown(outcome)) return unit?.use(request.caller.key)
      if (!result) return unit?.release()
      if ('unpaid' in result) {
        unit?.release()
        const { unpaid } = result
        if (!request.caller.account) this.rememberPayer(message.channel, unpaid)
        // Of another account than the store names, neither a unit nor the lack of one counts.
        const isPayer = payer && accountKey(payer) === accountKey(unpaid)
        return noUnit && isPayer ? request.refuse(noUnit) : this.#pay(request, message, unpaid)
      }
      if (result.charged) unit?.use(request.caller.key)
      else unit?.release()
      const { index, pressure } = result
      const slow = pressure && { waitMs: pressure.waitMs }
      const lagging = pressure?.lagging.map(wireLaggard) ?? []
      const value = wireMessage(SendMessageResponseSchema, { index: BigInt(index), lagging, ...slow })
      request.answer({ case: 'sendMessage', value })
    })
  }
}
