/** A process with one agent and nothing else: sends and receives when asked, and reports when it did. */
import { type ClientOptions, StaticChannelManager } from '@static/sdk'

/** An order of the bench. */
export interface Ask {
  readonly type: 'send' | 'receive' | 'ping'
  readonly name: string
  readonly text: string
}

/** When it began and ended, in milliseconds by the clock of the machine. */
export interface Told {
  readonly began: number
  readonly ended: number
}

const manager = await StaticChannelManager.connect(JSON.parse(process.argv[2] ?? '{}') as ClientOptions)
const now = (): number => performance.timeOrigin + performance.now()

const work: Record<Ask['type'], (name: string, text: string) => Promise<unknown>> = {
  send: (name, text) => manager.send(name, text),
  receive: (name) => manager.receive(name, 50),
  ping: () => Promise.resolve(),
}

process.on('message', ({ type, name, text }: Ask) => {
  const began = now()
  void work[type](name, text).then(() => process.send?.({ began, ended: now() } satisfies Told))
})
process.on('disconnect', () => void manager.close())
process.send?.('ready')
