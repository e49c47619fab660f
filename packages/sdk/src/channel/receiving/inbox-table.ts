/** The two tables of an inbox on disk: payloads for the application, and requests from other members. */
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { type InboxTable, type Incoming, placeOf } from './inbox.ts'
import { contentOf } from './stored-message.ts'

type TableContext = Pick<AgentContext, 'journal' | 'engine'>

/** The payloads of a channel. */
export function payloadTable({ journal, engine }: TableContext, channel: AgentChannel): InboxTable {
  return {
    put: (id, record) => ({ type: 'putInbox', id, record }),
    drop: (id, place) => ({ type: 'dropInbox', id, place: placeOf(place) }),
    keep: ({ record, ...content }) => channel.kept.received(record, content),
    page: (after, limit) =>
      readable(channel, () =>
        journal.inbox(channel.id, after, limit).flatMap((record) => {
          const content = contentOf(engine, record)
          return content ? [{ record, ...content, redelivered: channel.intake.isRedelivered(record.index) }] : []
        }),
      ),
  }
}

/** The requests from other members. */
export function requestTable({ journal, engine }: TableContext, channel: AgentChannel): InboxTable {
  return {
    put: (id, record) => ({ type: 'putRequest', id, record }),
    drop: (id, place) => ({ type: 'dropRequest', id, place: placeOf(place) }),
    keep: ({ record, payload }) => channel.kept.answered(record, payload),
    page: (after, limit) =>
      readable(channel, () =>
        journal.requests(channel.id, after, limit).flatMap((record) => {
          const content = contentOf(engine, record)
          return content ? [{ record, ...content, redelivered: channel.requests.inbox.wasGiven(record.index) }] : []
        }),
      ),
  }
}

/** The rows on disk, or the error if they cannot be read, which ends only this channel. */
function readable(channel: AgentChannel, read: () => readonly Incoming[]): readonly Incoming[] | StaticError {
  try {
    return read()
  } catch (cause) {
    const error = StaticError.from(cause)
    channel.unreadable(error)
    return error
  }
}
