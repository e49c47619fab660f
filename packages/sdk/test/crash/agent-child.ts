/** An agent in a process of its own, which does one thing and may die at any of its calls to the world. */
import { once } from 'node:events'
import { sayAtOnce } from '@static/testkit/crash/say'
import type { StaticClient } from '../../src/public/client.ts'
import { CrashingPorts } from '@static/testkit/crash/agent-ports'
import { LateListener } from './late-listener.ts'
import { startAgent } from './start.ts'
import type { ChildOptions, Task } from './tasks.ts'

const options = JSON.parse(process.argv[2] ?? '') as ChildOptions
const ports = new CrashingPorts('process')
const network = new LateListener()

function say(word: string, ...values: unknown[]): void {
  sayAtOnce(JSON.stringify([word, ...values]))
}

async function run(client: StaticClient, name: string, task: Task): Promise<void> {
  switch (task.type) {
    case 'create':
      await client.createChannel(name)
      return
    case 'add': {
      const welcome = await client.channel(name).addMember(Buffer.from(task.keyPackage, 'hex'))
      say('welcome', Buffer.from(welcome).toString('hex'))
      return
    }
    case 'join':
      await client.joinChannel(name, Buffer.from(task.welcome, 'hex'))
      return
    case 'send': {
      const channel = client.channel(name)
      await Promise.all(task.texts.map((text) => channel.send(text).then(() => say('confirmed', text))))
      return
    }
    case 'receive': {
      let left = task.count
      for await (const { payload, messageId, redelivered } of client.channel(name).envelopes()) {
        say('received', Buffer.from(payload).toString(), messageId, redelivered)
        if (--left === 0) break
      }
      return
    }
    case 'rotate':
      return await client.channel(name).rotate()
    case 'remove':
      return await client.channel(name).removeMember(task.member)
    case 'leave':
      return await client.channel(name).leave()
    case 'transfer':
      return await client.channel(name).transfer(task.member)
    case 'takeOver':
      return await client.channel(name).takeOver()
  }
}

const client = await startAgent(options, {
  store: (store) => ports.store(store),
  transport: (transport) => ports.transport(network.transport(transport)),
  session: (session) => network.session(session),
})
const go = once(process, 'message')
if (options.deaf) {
  await network.resumed
  network.stopListening()
}
ports.mark(options.crashAt)
say('ready')
await go
network.listenAfterWrite()
await run(client, options.channel, options.task)
say('done')
await client.close()
say('calls', ports.calls)
process.disconnect?.()
