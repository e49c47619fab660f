/** The receiving members of one group, all in this process, each with a connection of its own. */
import type { Ask, Told } from '../../agent/messages.ts'
import { ownCpu, serve } from '../../agent/serve.ts'
import { connectApp, LOST_AFTER_MS } from './app.ts'
import { startSlim, type Session } from './library.ts'
import type { MemberOptions } from './options.ts'

const options = JSON.parse(process.argv[2] ?? '{}') as MemberOptions
const slim = await startSlim()
const invited: Promise<Session>[] = []
for (let at = 0; at < options.members; at++) {
  const { app } = await connectApp(slim, options, at)
  invited.push(app.listenForSessionAsync(undefined))
}

async function receive(session: Session, count: number): Promise<void> {
  for (let received = 0; received < count; received++) await session.getMessageAsync(LOST_AFTER_MS)
}

/** Until the bench ends this process: the library cannot be told to stop waiting. */
async function echo(session: Session): Promise<never> {
  for (;;) {
    const { payload } = await session.getMessageAsync(LOST_AFTER_MS)
    await session.publishAsync(payload, undefined, undefined)
  }
}

async function answer(ask: Ask): Promise<Told> {
  const before = ownCpu()
  const sessions = await Promise.all(invited)
  switch (ask.type) {
    case 'receive':
      await Promise.all(sessions.map((session) => receive(session, ask.count)))
      return { type: 'done', cpu: ownCpu() - before }
    case 'echo':
      for (const session of sessions) void echo(session)
      return { type: 'done', cpu: 0 }
    case 'stopEcho':
      return { type: 'done', cpu: 0 }
    default:
      throw new Error(`Members are not asked: ${ask.type}.`)
  }
}

serve(answer)
