/** What several nodes need of their common store besides the channels. */
import type { StoreRequest, StoreResult } from '../../ports.ts'
import type { Context } from './context.ts'

/** Marks a nonce as used. */
export function useNonce({ rows }: Context, { nonce, until }: StoreRequest<'useNonce'>): StoreResult<'useNonce'> {
  return { fresh: rows.transient.useNonce(nonce, until) }
}

/** Where the logs of channels end. */
export function heads({ rows }: Context, { channels }: StoreRequest<'heads'>): StoreResult<'heads'> {
  return { heads: rows.channels.heads(channels) }
}

/** What happened on any node since a position. */
export function notices({ rows }: Context, { after, limit }: StoreRequest<'notices'>): StoreResult<'notices'> {
  return rows.transient.notices(after, limit)
}
