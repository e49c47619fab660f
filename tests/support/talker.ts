/** Agents that talk in one channel without pause, in TypeScript and Python, and remember what they sent and received. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { type StaticChannelManager, StaticError } from '@static/sdk'
import { PYTHON } from '../python/installed.ts'

/** How an agent connects. */
export type Way = 'grpc' | 'quic'

/** An agent that is a member of the channel. */
export interface Voice {
  /** Resolves once the relay has stored it. */
  send(text: string): Promise<void>
  /** Passes on every message, in order, from now on. */
  listen(heard: (text: string) => void): void
}

/** A member that talks. */
export class Talker {
  readonly name: string
  readonly way: Way
  /** What was stored. */
  readonly sent: string[] = []
  readonly received: string[] = []
  readonly #voice: Voice
  readonly #wishes = new Map<string, PromiseWithResolvers<void>>()
  #count = 0
  #isOver = false
  #talking: Promise<void> = Promise.resolve()

  constructor(name: string, way: Way, voice: Voice) {
    this.name = name
    this.way = way
    this.#voice = voice
    voice.listen((text) => {
      this.received.push(text)
      this.#wishes.get(text)?.resolve()
      this.#wishes.delete(text)
    })
  }

  /** Sends one message now. Resolves with its text once it is stored. */
  async say(): Promise<string> {
    const text = `${this.name} ${++this.#count}`
    await this.#voice.send(text)
    this.sent.push(text)
    return text
  }

  /** Talks until `stop`, with a pause after each message. */
  begin(pauseMs: number): void {
    this.#talking = this.#talk(pauseMs)
    this.#talking.catch(() => {})
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#talking
  }

  /** Rejects if talking has failed. */
  get talking(): Promise<void> {
    return this.#talking
  }

  /** Resolves when a message has arrived. */
  async hears(text: string): Promise<void> {
    if (text.startsWith(`${this.name} `) || this.received.includes(text)) return
    const wish = this.#wishes.get(text) ?? Promise.withResolvers<void>()
    this.#wishes.set(text, wish)
    await wish.promise
  }

  async #talk(pauseMs: number): Promise<void> {
    while (!this.#isOver) {
      await this.say()
      await delay(pauseMs)
    }
  }
}

/** An agent of the TypeScript SDK in this process. */
export function typescriptVoice(manager: StaticChannelManager, channel: string): Voice {
  return {
    send: async (text) => void (await manager.send(channel, text)),
    listen: (heard) => {
      const listen = async (): Promise<void> => {
        for await (const payload of manager.client.channel(channel).messages()) heard(Buffer.from(payload).toString())
      }
      listen().catch((error: unknown) => {
        if (StaticError.from(error).code !== 'closed') throw error
      })
    },
  }
}

/** What the Python agent is started with: the arguments of its manager, and the channel to join. */
export interface PythonTask {
  readonly options: Readonly<Record<string, string>>
  readonly channel: string
  readonly token: string
}

/** An agent of the Python SDK in its own process, which has joined the channel. */
export async function pythonVoice(task: PythonTask, directory: string): Promise<Voice & AsyncDisposable> {
  const { PATH } = process.env
  const child = spawn(PYTHON, ['-B', join(import.meta.dirname, 'talker.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      PATH,
      HOME: directory,
      TMPDIR: directory,
      PYTHONPATH: resolve(import.meta.dirname, '../../python'),
      STATIC_NODE: process.execPath,
    },
  })
  const stored = new Map<string, () => void>()
  const received: string[] = []
  let hear = (text: string): void => void received.push(text)
  const joined = Promise.withResolvers<void>()
  const ended = once(child, 'close')
  const failed = ended.then(([code]): never => {
    throw new Error(`The Python agent has ended with ${String(code)}.`)
  })
  failed.catch(() => {})
  createInterface({ input: child.stdout }).on('line', (line) => {
    const told = JSON.parse(line) as { joined?: true; sent?: string; received?: string }
    if (told.joined) joined.resolve()
    if (told.sent !== undefined) stored.get(told.sent)?.()
    if (told.received !== undefined) hear(told.received)
  })
  child.stdin.write(`${JSON.stringify(task)}\n`)
  await Promise.race([joined.promise, failed])
  return {
    send: async (text) => {
      const { promise, resolve: done } = Promise.withResolvers<void>()
      stored.set(text, done)
      child.stdin.write(`${text}\n`)
      await Promise.race([promise, failed])
      stored.delete(text)
    },
    listen: (heard) => {
      hear = heard
      for (const text of received.splice(0)) heard(text)
    },
    [Symbol.asyncDispose]: async () => {
      child.stdin.end()
      await ended
    },
  }
}

/** Everyone got what everyone else sent, once, in one order that keeps that of each sender. */
export function checkTalk(talkers: readonly Talker[]): void {
  for (const { name, received } of talkers) {
    assert.equal(new Set(received).size, received.length, `${name} got a message twice`)
    for (const other of talkers) {
      if (other.name === name) continue
      const heard = received.filter((text) => text.startsWith(`${other.name} `))
      const told = other.sent.map((_, at) => `${other.name} ${at + 1}`)
      assert.deepEqual(heard, told, `${name} did not get what ${other.name} sent`)
    }
  }
  for (const one of talkers) {
    for (const other of talkers) {
      const shared = (text: string): boolean => !text.startsWith(`${one.name} `) && !text.startsWith(`${other.name} `)
      assert.deepEqual(one.received.filter(shared), other.received.filter(shared), `${one.name} and ${other.name}`)
    }
  }
}
