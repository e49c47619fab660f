/**
 * Opens the PrivateMessage of a commit (RFC 9420, section 6.3). The steps are those of the library's
 * `unprotectPrivateMessage`, plus two checks it lacks: the sender's leaf is not blank, and the commit is within bounds
 * before it is re-encoded to verify the signature.
 */
import type { ClientState, PrivateMessage } from 'ts-mls'
import type { Commit } from 'ts-mls/commit.js'
import { verifyFramedContentSignature } from 'ts-mls/framedContent.js'
import {
  decodePrivateMessageContent,
  decryptSenderData,
  encodePrivateContentAAD,
  toAuthenticatedContent,
} from 'ts-mls/privateMessage.js'
import { ratchetToGeneration } from 'ts-mls/secretTree.js'
import { isCommitBounded } from './bounds.ts'
import { CONFIG } from './config.ts'
import { atGeneration } from './handshake.ts'
import type { MlsCrypto } from './key-package.ts'

/** The result of opening a message. */
export type OpenedCommit =
  | {
      readonly kind: 'commit'
      readonly leaf: number
      readonly commit: Commit
      /** The state passed in, with the ratchet of the commit's sender at its generation. */
      readonly ahead: ClientState
    }
  | { readonly kind: 'blank_sender' | 'not_a_commit' | 'out_of_bounds' }
  | { readonly kind: 'undecryptable'; readonly cause: unknown }

/** Opens a commit and verifies its signature. Does not change any state. */
export async function openCommit(
  crypto: MlsCrypto,
  state: ClientState,
  message: PrivateMessage,
): Promise<OpenedCommit> {
  try {
    return await open(crypto, state, message)
  } catch (cause) {
    return { kind: 'undecryptable', cause }
  }
}

async function open({ provider }: MlsCrypto, state: ClientState, message: PrivateMessage): Promise<OpenedCommit> {
  const { groupContext, ratchetTree, keySchedule } = state
  const senderData = await decryptSenderData(message, keySchedule.senderDataSecret, provider)
  if (senderData === undefined)
    return { kind: 'undecryptable', cause: new TypeError('The sender data of the commit is malformed.') }
  const leaf = senderData.leafIndex
  const node = ratchetTree[2 * leaf]
  if (node?.nodeType !== 'leaf') return { kind: 'blank_sender' }
  const { contentType } = message
  if (contentType !== 'commit') return { kind: 'not_a_commit' }
  const ahead = atGeneration(state, senderData)
  const { key, nonce } = await ratchetToGeneration(
    ahead.secretTree,
    senderData,
    contentType,
    CONFIG.keyRetentionConfig,
    provider,
  )
  const plaintext = await provider.hpke.decryptAead(key, nonce, encodePrivateContentAAD(message), message.ciphertext)
  const decoded = decodePrivateMessageContent(contentType)(plaintext, 0)?.[0]
  if (decoded?.contentType !== 'commit') return { kind: 'not_a_commit' }
  const { commit } = decoded
  if (!isCommitBounded(commit)) return { kind: 'out_of_bounds' }
  const { content, auth } = toAuthenticatedContent(decoded, message, leaf)
  const isSigned = await verifyFramedContentSignature(
    node.leaf.signaturePublicKey,
    'mls_private_message',
    content,
    auth,
    groupContext,
    provider.signature,
  )
  if (!isSigned)
    return { kind: 'undecryptable', cause: new TypeError(`The commit is not signed by its sender, leaf ${leaf}.`) }
  return { kind: 'commit', leaf, commit, ahead }
}
