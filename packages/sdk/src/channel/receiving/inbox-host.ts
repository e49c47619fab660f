/** What an inbox asks of its channel: to be written, and its messages or requests from the disk, decrypted. */
import { StaticError } from '@static/protocol'
import type { ChannelId } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { ReceivedRequests } from '../asking/received-requests.ts'
import type { ChannelWriter } from '../channel-writer.ts'
import type { Intake } from './intake.ts'
import type { InboxHost, Incoming } from './inbox-entry.ts'
import { payloadOf } from './stored-message.ts'

/** The parts of a channel that know what was delivered before. They may be set after the host was created. */
interface PageParts {
  readonly id: ChannelId
  readonly intake: Pick<Intake, 'isRedelivered'>
  readonly requests: Pick<ReceivedRequests, 'inbox'>
}

/** The host of the inbox of a table. Calls `unreadable` with the error of a disk that cannot be read. */
export function inboxHostOf(
  { journal, engine }: Pick<AgentContext, 'journal' | 'engine'>,
  parts: PageParts,
  writer: ChannelWriter,
  table: 'inbox' | 'requests',
  unreadable: (error: StaticError) => void,
): InboxHost {
  const isRedelivered = (index: number): boolean =>
    table === 'inbox' ? parts.intake.isRedelivered(index) : parts.requests.inbox.wasGiven(index)
  const read = (after: number, limit: number): readonly Incoming[] =>
    journal[table](parts.id, after, limit).flatMap((record) => {
      const payload = payloadOf(engine, record)
      return payload ? [{ record, payload, redelivered: isRedelivered(record.index) }] : []
    })
  return {
    touch: () => writer.touchPart(),
    touchLater: () => writer.touchPartLater(),
    touchRecord: () => writer.touch(),
    page: (after, limit) => {
      try {
        return read(after, limit)
      } catch (cause) {
        const error = StaticError.from(cause)
        unreadable(error)
        return error
      }
    },
  }
}
