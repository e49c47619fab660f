/** Operations for several nodes that share a store. */
import type { StoreRequest, StoreResult } from '../../ports.ts'
import type { Context } from './context.ts'

export function useNonce({ rows }: Context, { nonce, until }: StoreRequest<'useNonce'>): StoreResult<'useNonce'> {
  return { fresh: rows.transient.useNonce(nonce, until) }
}

export function heads({ rows }: Context, { channels }: StoreRequest<'heads'>): StoreResult<'heads'> {
  return { heads: rows.channels.heads(channels) }
}

/** Events on any node since a position. */
export function notices({ rows }: Context, { after, limit }: StoreRequest<'notices'>): StoreResult<'notices'> {
  return rows.transient.notices(after, limit)
}
