/**
 * Someone who records all that agents send and get, and all that they give to their applications, and who breaks X25519
 * one day: every private key of it is known then, of KeyPackages and leaves. No seed of ML-KEM is, unless a test gives
 * one.
 */
import type { Welcome } from 'ts-mls'
import { decodeMlsMessage } from 'ts-mls/message.js'
import { CellJoiner, toHex } from '@static/protocol'
import { decodeEnvelope, type WireForm } from '@static/protocol/envelope'
import {
  type ClientMessage,
  ClientMessageSchema,
  type SendCommitRequest,
  ServerMessageSchema,
} from '@static/protocol/relay'
import { agentIdOf } from '../../src/mls/credential.ts'
import type { Epoch, MlsEngine } from '../../src/mls/engine.ts'
import type { InviteSeal } from '../../src/mls/sealed-welcome.ts'
import { isSealed, openSealedWelcome, parseSealedWelcome } from '../../src/mls/sealed-welcome.ts'
import { decryptWelcome, enter } from '../../src/mls/ts-mls/join-group.ts'
import { decodeOwn, type OwnKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { adopt, inside } from '../../src/mls/ts-mls/state.ts'
import type { SignatureKeyPair } from '../../src/mls/index.ts'
import type { StreamHandlers, Transport } from '../../src/ports/index.ts'
import { crypto } from '../mls/attacker.ts'
import { engine, words } from '../mls/support.ts'

const MOST_BYTES = 4 * 1024 * 1024
const WELCOME = Buffer.of(0, 1, 0, 3)

/** A KeyPackage whose X25519 keys are broken. */
export interface Broken {
  readonly own: OwnKeyPackage
  /** The key of its agent, to build the library's state with; the attacker needs and uses no signature. */
  readonly key: SignatureKeyPair
  readonly ref: string
  /** Of ML-KEM: only for controls. */
  readonly seed: Uint8Array
}

/** A Welcome that could be opened, and the epoch that it leads to. */
export interface Break {
  readonly ref: string
  readonly key: SignatureKeyPair
  readonly epoch: Epoch
}

export class Recorder {
  /** Every byte string that was seen, once. */
  readonly #bytes = new Map<string, Uint8Array>()
  /** Commits as they were sent, with the agent that sent them, in order. */
  readonly #commits: { readonly request: SendCommitRequest; readonly sender: Uint8Array }[] = []
  readonly #messages: Uint8Array[] = []
  readonly broken: Map<string, Broken> = new Map()

  /** For `AgentOptions.engine`: the attacker will find what belongs to the KeyPackages. */
  readonly engine = (inner: MlsEngine): MlsEngine => ({
    ...inner,
    generateKeyPackage: async (identity, key, now) => {
      const made = await inner.generateKeyPackage(identity, key, now)
      const own = decodeOwn(made.privatePart, key)
      const seed = Uint8Array.from(own.sealPair.seed)
      own.sealPair.seed.fill(0)
      this.broken.set(toHex(made.ref), { own, key, ref: toHex(made.ref), seed })
      return made
    },
  })

  /** For `AgentOptions.transport`. */
  readonly transport = (inner: Transport): Transport => ({
    form: inner.form,
    dial: async (target, handlers) => {
      const [sent, received] = [new CellJoiner(MOST_BYTES), new CellJoiner(MOST_BYTES)]
      let sender: Uint8Array | undefined
      const recording: StreamHandlers = {
        data: (chunk) => {
          this.#envelopes(received, chunk, (bytes) =>
            this.#record(decodeEnvelope(inner.form, ServerMessageSchema, bytes, bytes.length)),
          )
          handlers.data(chunk)
        },
        closed: (reason) => handlers.closed(reason),
      }
      const stream = await inner.dial(target, recording)
      const write = stream.write.bind(stream)
      return Object.assign(stream, {
        write: (cells: Uint8Array, urgent?: boolean) => {
          this.#envelopes(sent, cells, (bytes) => {
            const message = decodeSent(inner.form, bytes)
            if (message.body.case === 'openSession') sender = agentIdOf(message.body.value.publicKey)
            if (message.body.case === 'sendCommit' && sender)
              this.#commits.push({ request: message.body.value, sender })
            if (message.body.case === 'sendMessage') this.#messages.push(message.body.value.ciphertext)
            this.#record(message)
          })
          write(cells, urgent)
        },
      })
    },
  })

  /** What an application got from its agent, and may have sent on in any way. */
  note<Value extends Uint8Array | string | readonly Uint8Array[]>(value: Value): Value {
    this.#record(typeof value === 'string' ? Buffer.from(value) : value)
    return value
  }

  /** The refs of the KeyPackages for which a Welcome was seen that is sealed. */
  get sealed(): Set<string> {
    const found = [...this.#bytes.values()].flatMap((bytes) => (isSealed(bytes) ? toHex(bytes.subarray(6, 38)) : []))
    return new Set(found)
  }

  /** How often different bytes were sealed to a KeyPackage. */
  sealedTo(ref: string): number {
    const heads = [...this.#bytes.values()].filter((bytes) => isSealed(bytes) && toHex(bytes.subarray(6, 38)) === ref)
    return new Set(heads.map((bytes) => toHex(bytes.subarray(38, 1100)))).size
  }

  get commits(): readonly { readonly request: SendCommitRequest; readonly sender: Uint8Array }[] {
    return this.#commits
  }

  /** The messages that were sent. */
  messages(): readonly Uint8Array[] {
    return this.#messages
  }

  /** All that looks like a Welcome, wherever it begins in anything that was seen. */
  #welcomes(): Welcome[] {
    const found = new Map<string, Welcome>()
    for (const bytes of this.#whole()) {
      const view = Buffer.from(bytes)
      for (let at = view.indexOf(WELCOME); at >= 0; at = view.indexOf(WELCOME, at + 1)) {
        try {
          const [message] = decodeMlsMessage(Uint8Array.from(view.subarray(at)), 0) ?? []
          if (message?.wireformat === 'mls_welcome') found.set(`${toHex(bytes.subarray(0, 64))} ${at}`, message.welcome)
        } catch {
          // It only looks like one.
        }
      }
    }
    return [...found.values()]
  }

  /** What was seen, and each Welcome of a commit with the end that all of them share. */
  *#whole(): Iterable<Uint8Array> {
    yield* this.#bytes.values()
    for (const { request } of this.#commits) {
      for (const { welcome } of request.welcomes) yield Buffer.concat([welcome, request.groupInfo])
    }
  }

  /** Opens every Welcome that the broken keys open. */
  async attack(): Promise<Break[]> {
    const breaks: Break[] = []
    for (const welcome of this.#welcomes()) {
      for (const broken of this.broken.values()) {
        const epoch = await open(welcome, broken)
        if (epoch && breaks.every(({ ref }) => ref !== broken.ref))
          breaks.push({ ref: broken.ref, key: broken.key, epoch })
      }
    }
    return breaks
  }

  /** The control: what one sealed Welcome would give to someone who had its seed as well. */
  async attackWithSeed(ref: string, invite?: InviteSeal): Promise<Break | undefined> {
    const broken = this.broken.get(ref)
    for (const bytes of this.#whole()) {
      const sealed = parseSealedWelcome(bytes)
      if (!broken || !sealed || sealed.groupInfo.length === 0 || toHex(sealed.ref) !== ref) continue
      const { sealKey } = broken.own.sealPair
      const plain = openSealedWelcome(sealed, { seed: Uint8Array.from(broken.seed), sealKey }, invite?.seal)
      const [message] = decodeMlsMessage(plain, 0) ?? []
      const epoch = message?.wireformat === 'mls_welcome' ? await open(message.welcome, broken) : undefined
      if (epoch) return { ref, key: broken.key, epoch }
    }
    return undefined
  }

  /** What is read in an epoch, and in all later ones that the recorded commits lead to, even those that lost. */
  async read({ group, rows }: Epoch): Promise<Set<string>> {
    const read = new Set<string>()
    const ratchets = new Map(rows.map((row) => [row.leaf, row]))
    for (const bytes of this.#bytes.values()) {
      try {
        read.add(words(inside(group).cipher.open(ratchets, bytes, { steps: 1024 }).plaintext))
      } catch {
        // Of another epoch or channel, or no message.
      }
    }
    for await (const next of this.#follow(group)) for (const text of await this.read(next)) read.add(text)
    return read
  }

  /** The epochs after a recorded commit. */
  async *#follow(group: Epoch['group']): AsyncIterable<Epoch> {
    for (const { request, sender } of this.#commits) {
      const { declaration } = request
      if (!declaration) continue
      const { owner, standby, ...rest } = declaration
      const declared = { ...rest, ...(owner.length > 0 && { owner, standby }) }
      const result = await engine.process(group, request.commit, { declaration: declared, declarer: sender })
      if (result.kind === 'accepted' && result.next) yield result.next
    }
  }

  #envelopes(joiner: CellJoiner, chunk: Uint8Array, take: (envelope: Uint8Array) => void): void {
    joiner.push(Uint8Array.from(chunk), (event) => {
      if (event.type === 'envelope') take(Uint8Array.from(event.payload))
    })
  }

  /** Every byte string in a value, however deep. */
  #record(value: unknown): void {
    if (value instanceof Uint8Array) {
      const bytes = Uint8Array.from(value)
      if (bytes.length > 0) this.#bytes.set(toHex(bytes), bytes)
    } else if (typeof value === 'object' && value !== null) {
      for (const inner of Object.values(value)) this.#record(inner)
    }
  }
}

function decodeSent(form: WireForm, bytes: Uint8Array): ClientMessage {
  return decodeEnvelope(form, ClientMessageSchema, bytes, bytes.length)
}

/** Opens a Welcome as MLS has it. */
async function open(welcome: Welcome, { own, key }: Broken): Promise<Epoch | undefined> {
  const privatePackage = {
    ...own.privatePackage,
    initPrivateKey: Uint8Array.from(own.privatePackage.initPrivateKey),
    hpkePrivateKey: Uint8Array.from(own.privatePackage.hpkePrivateKey),
  }
  try {
    const opened = await decryptWelcome(crypto, welcome, { publicPackage: own.publicPackage, privatePackage })
    return adopt(crypto, await enter(crypto, opened, { publicPackage: own.publicPackage, privatePackage }), key)
  } catch {
    return undefined
  }
}
