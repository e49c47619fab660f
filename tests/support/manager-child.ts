/** A channel manager in its own process, controlled by its parent. Imports only `@static/sdk`. */
import { type ClientOptions, type InviteOptions, StaticChannelManager, StaticError } from '@static/sdk'

let manager: StaticChannelManager | undefined
let diesWhenAdding = false

function here(): StaticChannelManager {
  if (!manager) throw new Error('The manager is not connected.')
  return manager
}

/** The actions that the parent can call. */
const ACTIONS = {
  async connect(options: ClientOptions): Promise<void> {
    manager = await StaticChannelManager.connect(options)
    void tellMembers(manager)
  },
  agentId(): string {
    return here().client.agentId
  },
  async create(name: string): Promise<void> {
    await here().create(name)
  },
  async invite(name: string, options: InviteOptions): Promise<string> {
    return await here().invite(name, options)
  },
  async join(name: string, token: string, timeout: number): Promise<number> {
    return (await here().joinWithToken(name, token, timeout)).members().length
  },
  async send(name: string, text: string): Promise<void> {
    await here().send(name, text)
  },
  async receive(name: string, timeout: number): Promise<string | undefined> {
    const payload = await here().receive(name, timeout)
    return payload ? Buffer.from(payload).toString() : undefined
  },
  members(name: string): string[] {
    return here()
      .client.channel(name)
      .members()
      .map(({ agentId }) => agentId)
      .sort()
  },
  verify(name: string): string {
    return here().client.channel(name).verify()
  },
  /** Makes it die with its next commit that adds a member. */
  dieWhenAdding(): void {
    diesWhenAdding = true
  },
  async close(): Promise<void> {
    await here().close()
  },
}

/** The actions, as the parent calls them. */
export type Actions = typeof ACTIONS

async function tellMembers({ client }: StaticChannelManager): Promise<void> {
  for await (const happened of client.events()) {
    if (happened.type !== 'members_changed') continue
    if (diesWhenAdding && happened.added.length > 0) process.kill(process.pid, 'SIGKILL')
    process.send?.({ added: happened.added })
  }
}

process.on('message', ({ id, action, args }: { id: number; action: keyof Actions; args: readonly unknown[] }) => {
  const act = ACTIONS[action] as (...args: readonly unknown[]) => unknown
  Promise.try(act, ...args).then(
    (result) => process.send?.({ id, result }),
    (error: unknown) => {
      const { code, message } = StaticError.from(error)
      process.send?.({ id, code, message: error instanceof Error ? error.message : message })
    },
  )
})
// Exits with its parent.
process.on('disconnect', () => process.exit(1))
