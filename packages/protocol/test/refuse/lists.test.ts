/** Lists that are short on the wire but would become many objects. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf'
import {
  AckRequestSchema,
  ClientMessageSchema,
  DeclarationSchema,
  ResumeRequestSchema,
  ServerMessageSchema,
} from '../../src/gen/static/relay/v1/relay_pb.ts'
import { decodeEnvelope, encodeEnvelope } from '../../src/wire/envelope.ts'
import { AGENT_ID_BYTES, CHANNEL_ID_BYTES, MAX_KEY_PACKAGES, MAX_MEMBERS } from '../../src/wire/limits.ts'
import { WireError } from '../../src/wire/wire-error.ts'

const MAX = 4_194_304
/** As many as a Resume or an Ack may name. */
const CHANNELS = 2000
const FORMS = ['cbor', 'protobuf'] as const

const list = <Item>(length: number, item: Item): Item[] => Array.from({ length }, () => item)
const tooMany = (error: unknown): boolean => error instanceof WireError && error.fault === 'too-many-items'

function decodes<Type extends DescMessage>(
  form: (typeof FORMS)[number],
  type: Type,
  init: MessageInitShape<Type>,
): void {
  const bytes = encodeEnvelope(form, type, create(type, init))
  assert.deepEqual(encodeEnvelope(form, type, decodeEnvelope(form, type, bytes, MAX)), bytes)
}

for (const form of FORMS) {
  void test(`${form}: items of lists need 16 bytes on average, except for 64 of them`, () => {
    decodes(form, AckRequestSchema, { positions: list(64, {}) })
    decodes(form, ResumeRequestSchema, { channelIds: list(64, new Uint8Array()) })
    const empty = new Uint8Array()
    const leaveNotices = list(40, { leafKeys: list(2, empty) })
    const refused = (decode: () => void): void => assert.throws(decode, tooMany)
    refused(() => decodes(form, AckRequestSchema, { positions: list(80, {}) }))
    refused(() => decodes(form, ResumeRequestSchema, { channelIds: list(80, empty) }))
    refused(() => decodes(form, ResumeRequestSchema, { channelIds: list(CHANNELS, new Uint8Array(12)) }))
    refused(() => decodes(form, DeclarationSchema, { leaveNotices }))
    refused(() => decodes(form, DeclarationSchema, { adds: list(40, empty), removes: list(40, empty) }))
  })

  void test(`${form}: the longest lists that agents and relays send are accepted`, () => {
    const channelId = new Uint8Array(CHANNEL_ID_BYTES).fill(1)
    const agentId = new Uint8Array(AGENT_ID_BYTES).fill(1)
    const notice = { publicKey: agentId, slot: 1n, signature: new Uint8Array(64).fill(1), leafKeys: list(2, agentId) }
    const agents = list(MAX_MEMBERS, agentId)
    const declaration = { adds: agents, removes: agents, leaveNotices: list(MAX_MEMBERS, notice), vouches: agents }
    const welcomes = list(MAX_MEMBERS, { agentId, welcome: Uint8Array.of(1) })
    const requests: NonNullable<MessageInitShape<typeof ClientMessageSchema>['body']>[] = [
      { case: 'resume', value: { channelIds: list(CHANNELS, channelId) } },
      { case: 'ack', value: { positions: list(CHANNELS, { channelId, index: 1n }) } },
      { case: 'sendCommit', value: { channelId, declaration, welcomes } },
      { case: 'resetRoster', value: { channelId, agentIds: agents, vouched: agents } },
      { case: 'vouch', value: { channelId, agentIds: agents } },
      { case: 'uploadKeyPackage', value: { keyPackages: list(MAX_KEY_PACKAGES, new Uint8Array(1)) } },
    ]
    for (const body of requests) decodes(form, ClientMessageSchema, { requestId: 1n, body })
    const pending = Array.from({ length: CHANNELS }, (_, at) => BigInt(at))
    const answers: NonNullable<MessageInitShape<typeof ServerMessageSchema>['body']>[] = [
      { case: 'resume', value: { channels: list(CHANNELS, { channelId }) } },
      { case: 'pollJoinRequests', value: { pending } },
      { case: 'rosterReset', value: { channelId, dropped: agents, returned: agents } },
    ]
    for (const body of answers) decodes(form, ServerMessageSchema, { requestId: 1n, body })
  })
}
