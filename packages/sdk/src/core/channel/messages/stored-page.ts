/** Reads messages and requests of a channel from the disk, decrypted. */
import type { ChannelId } from '../../../ports.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { Incoming } from './inbox.ts'
import { payloadOf } from './stored-message.ts'

/** Where a page is. */
export interface PagePlace {
  readonly table: 'inbox' | 'requests'
  readonly id: ChannelId
  readonly after: number
  readonly limit: number
}

/** The next ones after an index. Throws if they cannot be read. */
export function readPage(
  { journal, engine }: Pick<AgentContext, 'journal' | 'engine'>,
  { table, id, after, limit }: PagePlace,
  isRedelivered: (index: number) => boolean,
): readonly Incoming[] {
  return journal[table](id, after, limit).flatMap((record) => {
    const payload = payloadOf(engine, record)
    return payload ? [{ record, payload, redelivered: isRedelivered(record.index) }] : []
  })
}
