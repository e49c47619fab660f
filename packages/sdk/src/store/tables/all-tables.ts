/** All tables, parents first. */
import type { TableDeclaration } from '../rows/table.ts'
import { IDENTITY, KEY_PACKAGE, PIN, RELAY, REMOVED } from './agent-tables.ts'
import { APPROVAL, APPROVAL_EVENT, APPROVAL_REQUEST } from './approval-tables.ts'
import { CHANNEL, EPOCH, LEAVER, PENDING_COMMIT, RATCHET, SENDER, WELCOME } from './channel-tables.ts'
import { FILE, FILE_DIGESTS, UPLOAD, UPLOAD_PART } from './file-tables.ts'
import { ATTEMPT, CLAIM, INVITE, INVITE_LIST, JOINER, USE } from './invite-tables.ts'
import { KEEPING, KEPT } from './kept-tables.ts'
import { ANSWER, ANSWERER, ASK, INBOX, OUTBOX, POISON, REQUEST } from './message-tables.ts'
import { MEMBER_PROOF, OWN_PROOF } from './proof-tables.ts'
import { CHAIN, OWN_RECEIPT, STAY } from './receipt-tables.ts'

export const TABLES: readonly TableDeclaration[] = [
  IDENTITY,
  KEY_PACKAGE,
  REMOVED,
  CHANNEL,
  WELCOME,
  EPOCH,
  RATCHET,
  PENDING_COMMIT,
  SENDER,
  LEAVER,
  CHAIN,
  OWN_RECEIPT,
  STAY,
  OWN_PROOF,
  MEMBER_PROOF,
  OUTBOX,
  INBOX,
  POISON,
  REQUEST,
  ANSWER,
  ASK,
  ANSWERER,
  FILE,
  FILE_DIGESTS,
  UPLOAD,
  UPLOAD_PART,
  KEPT,
  KEEPING,
  APPROVAL,
  APPROVAL_REQUEST,
  APPROVAL_EVENT,
  INVITE,
  JOINER,
  INVITE_LIST,
  USE,
  CLAIM,
  ATTEMPT,
  PIN,
  RELAY,
]
