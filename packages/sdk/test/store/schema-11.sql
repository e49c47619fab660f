CREATE TABLE identity (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  identity BLOB NOT NULL,
  public_key BLOB NOT NULL,
  secret_key BLOB NOT NULL
) STRICT;

-- On a page without secrets: it is the one that is in the log right after a checkpoint.
CREATE TABLE opens (one INTEGER PRIMARY KEY CHECK (one = 1), value INTEGER NOT NULL) STRICT;
INSERT INTO opens VALUES (1, 0);

CREATE TABLE key_package (
  ref TEXT PRIMARY KEY,
  key_package BLOB NOT NULL,
  private_part BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  pooled INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE removed (
  name TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE channel (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  state TEXT NOT NULL,
  position_index INTEGER NOT NULL,
  position_hash BLOB NOT NULL,
  position_slot INTEGER NOT NULL,
  epoch_index INTEGER NOT NULL,
  epoch_counter INTEGER NOT NULL,
  epoch_proven INTEGER NOT NULL,
  epoch_heard_owner INTEGER NOT NULL,
  epoch_left_out TEXT NOT NULL,
  epoch_left_out_before TEXT NOT NULL,
  epoch_doubted TEXT NOT NULL,
  counter INTEGER NOT NULL,
  own_hash BLOB NOT NULL,
  rekey_due INTEGER NOT NULL,
  rekeyed_at INTEGER NOT NULL,
  rekey_deferred_at INTEGER NOT NULL,
  sent_since_rekey INTEGER NOT NULL,
  fork TEXT,
  broken TEXT,
  leaf_keys BLOB NOT NULL,
  given_up_to INTEGER NOT NULL,
  served_up_to INTEGER NOT NULL,
  offered_by TEXT,
  offered_at INTEGER NOT NULL,
  confirmed INTEGER NOT NULL,
  taken_unconfirmed INTEGER NOT NULL,
  entered_under TEXT,
  removal_slot INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE welcome (
  channel TEXT PRIMARY KEY REFERENCES channel ON DELETE CASCADE,
  welcome BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- pending 0: the epoch in use; 1: the one that an own commit would lead to.
CREATE TABLE epoch (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  pending INTEGER NOT NULL,
  mls_group BLOB NOT NULL,
  PRIMARY KEY (channel, pending)
) STRICT, WITHOUT ROWID;

CREATE TABLE ratchet (
  channel TEXT NOT NULL,
  pending INTEGER NOT NULL,
  leaf INTEGER NOT NULL,
  ratchet BLOB NOT NULL,
  PRIMARY KEY (channel, pending, leaf),
  FOREIGN KEY (channel, pending) REFERENCES epoch ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE pending_commit (
  channel TEXT NOT NULL,
  pending INTEGER NOT NULL CHECK (pending = 1),
  message_id BLOB NOT NULL,
  slot INTEGER NOT NULL,
  request BLOB NOT NULL,
  body_hash BLOB NOT NULL,
  purpose TEXT NOT NULL,
  PRIMARY KEY (channel, pending),
  FOREIGN KEY (channel, pending) REFERENCES epoch ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE sender (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  agent TEXT NOT NULL,
  counter INTEGER NOT NULL,
  own_hash BLOB NOT NULL,
  accepted INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (channel, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE leaver (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  agent TEXT NOT NULL,
  public_key BLOB NOT NULL,
  slot INTEGER NOT NULL,
  leaf_keys BLOB NOT NULL,
  signature BLOB NOT NULL,
  PRIMARY KEY (channel, agent)
) STRICT, WITHOUT ROWID;

-- Ciphertexts of messages, by number; see bodies.ts.
CREATE TABLE body (number INTEGER PRIMARY KEY, ciphertext BLOB NOT NULL) STRICT;

-- Answered: body_hash is set, message_key is empty, and the number in body may be another message's by now.
CREATE TABLE own_proof (
  channel TEXT PRIMARY KEY REFERENCES channel ON DELETE CASCADE,
  place INTEGER NOT NULL,
  show TEXT,
  due INTEGER NOT NULL,
  shown_at INTEGER NOT NULL,
  require TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE member_proof (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  agent TEXT NOT NULL,
  verdict TEXT,
  pending BLOB,
  demand TEXT,
  demanded_at INTEGER NOT NULL,
  PRIMARY KEY (channel, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  message_id BLOB NOT NULL,
  counter INTEGER NOT NULL,
  control INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  file_id BLOB,
  message_key BLOB NOT NULL,
  body INTEGER NOT NULL,
  body_hash BLOB,
  PRIMARY KEY (channel, message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  log_index INTEGER NOT NULL,
  part INTEGER NOT NULL,
  message_id BLOB NOT NULL,
  sender TEXT NOT NULL,
  identity BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  message_key BLOB NOT NULL,
  body INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (channel, log_index, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE poison (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  log_index INTEGER NOT NULL,
  part INTEGER NOT NULL,
  message_id BLOB NOT NULL,
  sender TEXT NOT NULL,
  identity BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  message_key BLOB NOT NULL,
  body INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  reason TEXT NOT NULL,
  put_aside_at INTEGER NOT NULL,
  PRIMARY KEY (channel, log_index, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  log_index INTEGER NOT NULL,
  part INTEGER NOT NULL,
  message_id BLOB NOT NULL,
  sender TEXT NOT NULL,
  identity BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  message_key BLOB NOT NULL,
  body INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (channel, log_index, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE answer (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  log_index INTEGER NOT NULL,
  part INTEGER NOT NULL,
  message_id BLOB NOT NULL,
  sender TEXT NOT NULL,
  identity BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  message_key BLOB NOT NULL,
  body INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (channel, log_index, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE ask (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  message_id BLOB NOT NULL,
  asked TEXT,
  deadline INTEGER NOT NULL,
  PRIMARY KEY (channel, message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE answerer (
  channel TEXT NOT NULL,
  message_id BLOB NOT NULL,
  agent TEXT NOT NULL,
  answers INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  PRIMARY KEY (channel, message_id, agent),
  FOREIGN KEY (channel, message_id) REFERENCES ask ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE file (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  log_index INTEGER NOT NULL,
  file_id BLOB NOT NULL,
  secret BLOB NOT NULL,
  size INTEGER NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL,
  message_id BLOB NOT NULL,
  sender TEXT NOT NULL,
  identity BLOB NOT NULL,
  received_at INTEGER NOT NULL,
  target TEXT,
  part_file TEXT,
  saved_parts INTEGER NOT NULL,
  is_done INTEGER NOT NULL,
  PRIMARY KEY (channel, log_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE file_digests (
  channel TEXT NOT NULL,
  log_index INTEGER NOT NULL,
  digests BLOB NOT NULL,
  PRIMARY KEY (channel, log_index),
  FOREIGN KEY (channel, log_index) REFERENCES file ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE upload (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  file_id BLOB NOT NULL,
  secret BLOB NOT NULL,
  size INTEGER NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL,
  text TEXT NOT NULL,
  path TEXT NOT NULL,
  begun_at INTEGER NOT NULL,
  PRIMARY KEY (channel, file_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE upload_part (
  channel TEXT NOT NULL,
  file_id BLOB NOT NULL,
  part INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (channel, file_id, part),
  FOREIGN KEY (channel, file_id) REFERENCES upload ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE approval (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  hash BLOB NOT NULL,
  identity BLOB NOT NULL,
  since INTEGER NOT NULL,
  clock INTEGER NOT NULL,
  outcome TEXT,
  is_spent INTEGER NOT NULL,
  PRIMARY KEY (channel, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE approval_request (
  channel TEXT NOT NULL,
  hash BLOB NOT NULL,
  request BLOB NOT NULL,
  PRIMARY KEY (channel, hash),
  FOREIGN KEY (channel, hash) REFERENCES approval ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE approval_event (
  channel TEXT NOT NULL,
  hash BLOB NOT NULL,
  number INTEGER NOT NULL,
  agent TEXT NOT NULL,
  what TEXT NOT NULL,
  at INTEGER NOT NULL,
  decision BLOB NOT NULL,
  public_key BLOB NOT NULL,
  identity BLOB NOT NULL,
  PRIMARY KEY (channel, hash, number),
  FOREIGN KEY (channel, hash) REFERENCES approval ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE invite (
  id TEXT PRIMARY KEY,
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  secret BLOB NOT NULL,
  expires_at INTEGER NOT NULL,
  max_uses INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  returned INTEGER NOT NULL,
  revoked INTEGER NOT NULL,
  admit TEXT NOT NULL,
  box_secret BLOB,
  require TEXT,
  replaces INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE joiner (
  channel TEXT NOT NULL,
  agent TEXT NOT NULL,
  invite TEXT NOT NULL REFERENCES invite ON DELETE CASCADE,
  nonce BLOB NOT NULL,
  key_package_hash BLOB NOT NULL,
  spent BLOB NOT NULL,
  state TEXT NOT NULL,
  since INTEGER NOT NULL,
  verdict TEXT,
  PRIMARY KEY (channel, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE invite_list (
  channel TEXT PRIMARY KEY REFERENCES channel ON DELETE CASCADE,
  list BLOB NOT NULL,
  counts BLOB NOT NULL,
  due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE invite_use (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  agent TEXT NOT NULL,
  slot INTEGER NOT NULL,
  invite TEXT NOT NULL,
  leaf_key BLOB NOT NULL,
  added_by TEXT NOT NULL,
  since INTEGER NOT NULL,
  state TEXT NOT NULL,
  beyond INTEGER NOT NULL,
  PRIMARY KEY (channel, agent, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE claim (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  claimed_by TEXT NOT NULL,
  claims BLOB NOT NULL,
  PRIMARY KEY (channel, claimed_by)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
  invite TEXT PRIMARY KEY,
  channel TEXT NOT NULL,
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  secret BLOB NOT NULL,
  expires_at INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  key_package BLOB NOT NULL,
  admit TEXT NOT NULL,
  taken_back INTEGER NOT NULL,
  box_key_hash BLOB,
  show TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE pin (
  owner TEXT NOT NULL,
  identity BLOB NOT NULL,
  agent TEXT NOT NULL,
  PRIMARY KEY (owner, identity)
) STRICT, WITHOUT ROWID;

CREATE TABLE relay (relay_name TEXT PRIMARY KEY, relay_id BLOB NOT NULL, grpc_port INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE ring (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  size INTEGER NOT NULL,
  number INTEGER NOT NULL,
  place INTEGER NOT NULL,
  tag BLOB NOT NULL
) STRICT;

-- The last hashes of the chain, with the own messages among them.
CREATE TABLE chain (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  first INTEGER NOT NULL,
  hashes BLOB NOT NULL,
  own BLOB NOT NULL,
  PRIMARY KEY (channel, first)
) STRICT, WITHOUT ROWID;

-- What this agent's receipts say besides its position.
CREATE TABLE own_receipt (
  channel TEXT PRIMARY KEY REFERENCES channel ON DELETE CASCADE,
  since INTEGER NOT NULL,
  aside INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The stays of members, with their last receipts.
CREATE TABLE stay (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  agent TEXT NOT NULL,
  added_at INTEGER NOT NULL,
  ending TEXT NOT NULL,
  ended_at INTEGER NOT NULL,
  vouched INTEGER NOT NULL,
  mode TEXT NOT NULL,
  since INTEGER NOT NULL,
  log_index INTEGER NOT NULL,
  aside INTEGER NOT NULL,
  settled INTEGER NOT NULL,
  heard_at INTEGER NOT NULL,
  PRIMARY KEY (channel, agent, added_at)
) STRICT, WITHOUT ROWID;

-- The history: messages that were settled or sent, for an agent that keeps them.
CREATE TABLE kept (
  channel TEXT NOT NULL REFERENCES channel ON DELETE CASCADE,
  log_index INTEGER NOT NULL,
  part INTEGER NOT NULL,
  sender TEXT NOT NULL,
  kept_at INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  message_id BLOB NOT NULL,
  identity BLOB NOT NULL,
  received_at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  request_id BLOB,
  file_name TEXT,
  file_size INTEGER,
  file_type TEXT,
  payload BLOB NOT NULL,
  PRIMARY KEY (channel, log_index, part, sender)
) STRICT;

-- For how many days.
CREATE TABLE keeping (one INTEGER PRIMARY KEY CHECK (one = 1), days INTEGER NOT NULL) STRICT;
