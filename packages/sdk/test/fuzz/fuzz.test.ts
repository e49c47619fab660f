/** Fuzzes what an agent decodes: frames, tokens, links, lists of invites, MLS structures, and the driver's pipe. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { encodeMlsMessage } from 'ts-mls'
import { StaticError } from '@static/protocol'
import { fuzz, type FuzzTarget } from '@static/testkit/fuzz'
import {
  decodeAnswer,
  decodeCancel,
  decodeMore,
  decodeRefused,
  decodeRequest,
  encodeAnswer,
  encodeAnswerEnd,
  encodeCancel,
  encodeMore,
  encodeRefused,
  encodeRequest,
} from '../../src/channel/asking/ask-frame.ts'
import { ListedInvites } from '../../src/admitting/listed-invites.ts'
import { decodeClaims, encodeClaims } from '../../src/admitting/claims.ts'
import { decodeList, decodeListFrame, encodeList, encodeListFrame, listBytes } from '../../src/admitting/invite-list.ts'
import { decodeFrame, encodeFrame, VERSION } from '../../src/channel/sending/message-frame.ts'
import { decodeDecision, encodeDecision } from '../../src/approvals/decision.ts'
import { checkRecord, encodeRecord } from '../../src/approvals/record.ts'
import { decodeApproval, encodeApproval } from '../../src/approvals/request.ts'
import { decodeFile, encodeFile } from '../../src/files/file-frame.ts'
import { encodePipeFrame, PipeFrameReader } from '../../src/driver/pipe-frame.ts'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import { encodePack } from '../../src/channel/sending/pack.ts'
import { parseAgentId } from '../../src/public/fingerprint.ts'
import { openRequest, sealRequest } from '../../src/joining/request.ts'
import { inviteKeys, sealBox } from '../../src/admitting/keys.ts'
import { parseInviteLink } from '../../src/admitting/link.ts'
import { decodeToken, encodeToken } from '../../src/admitting/token.ts'
import { ed25519 } from '../../src/mls/index.ts'
import { decodeContext, encodeContext, ownedBy } from '../../src/mls/channel-context.ts'
import { parsePrivateMessage } from '../../src/mls/framing.ts'
import { sha256 } from '../../src/mls/hash.ts'
import { openSealedWelcome, parseSealedWelcome, sealWelcome } from '../../src/mls/sealed-welcome.ts'
import { isKeyPackageBounded } from '../../src/mls/ts-mls/bounds.ts'
import { CHANNEL_EXTENSIONS } from '../../src/mls/ts-mls/config.ts'
import { decodeState, encodeState } from '../../src/mls/ts-mls/group-codec.ts'
import { checkKeyPackage, decodeOwn } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from '../mls/attacker.ts'
import { bare } from '../mls/forbidden-commits.ts'
import { Agent, channelOf, engine, NAME } from '../mls/support.ts'

const latin = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')
const PREFIX = 'st_inv_'
const ID = new Uint8Array(16).fill(0x30)
const HASH = new Uint8Array(32).fill(5)
const HIGH = Uint8Array.of(0, 0, 255, 255, 255, 255, 255, 255)
/** The longest own part of a Welcome, without its tag. */
const MOST_OWN_BYTES = 0xffff - 16
const PACK = encodePack([Buffer.from('one'), new Uint8Array(), Buffer.from('three')])
const FILE = {
  fileId: ID,
  secret: HASH,
  size: 65_537,
  name: '../a\u202e.txt',
  type: 'text/plain',
  text: 'Read it.',
  digests: HASH,
}
const APPROVAL = encodeApproval({
  channelId: ID,
  asker: 'ab'.repeat(32),
  requestId: ID,
  deadline: 2 ** 40,
  need: 1,
  from: ['cd'.repeat(32), 'ef'.repeat(32)],
  title: 'Deploy\u202e',
  text: 'Now.',
  risk: '',
  action: HASH,
})
const DECISION = encodeDecision({
  hash: HASH,
  choice: 'deny',
  time: 7,
  attended: true,
  signature: new Uint8Array(64).fill(9),
})

/** A decoder of texts. */
function texts(name: string, seeds: readonly string[], decode: (text: string) => unknown): FuzzTarget {
  const bytes = seeds.map((text) => Uint8Array.from(Buffer.from(text)))
  return { name, seeds: bytes, words: seeds, decode: (input) => decode(latin(input)) }
}

test('frames of messages: each has one encoding', async (t) => {
  const frame = {
    messageId: ID,
    counter: 3,
    previous: HASH,
    seen: { index: 9, hash: HASH },
    payload: Buffer.from('hi'),
  }
  await fuzz(t, {
    name: 'frames',
    seeds: [
      ...(['payload', 'request', 'answer', 'answer_end', 'cancel'] as const).map((kind) =>
        encodeFrame({ ...frame, kind }),
      ),
      encodeFrame({ ...frame, kind: 'more', counter: 2 ** 52 }),
      encodeFrame({ ...frame, kind: 'pack', payload: PACK }),
      encodeFrame({ ...frame, kind: 'file', payload: encodeFile(FILE) }),
      encodeFrame({ ...frame, kind: 'approval', payload: APPROVAL }),
      encodeFrame({ ...frame, kind: 'decision', payload: DECISION }),
    ],
    decode: (bytes) => {
      const { version, kind, ...fields } = decodeFrame(bytes) ?? {}
      if (version !== VERSION || kind === undefined) return
      assert.deepEqual(encodeFrame({ ...(fields as typeof frame), kind }), Uint8Array.from(bytes))
    },
  })
})

test('messages about files: each has one encoding', async (t) => {
  await fuzz(t, {
    name: 'files',
    seeds: [encodeFile(FILE), encodeFile({ ...FILE, size: 1_048_577, digests: Buffer.concat([HASH, HASH]), type: '' })],
    decode: (bytes) => {
      const file = decodeFile(bytes)
      if (file) assert.deepEqual(encodeFile(file), Uint8Array.from(bytes))
    },
  })
})

test('approvals and decisions: each has one encoding, and a record is one or is refused', async (t) => {
  await fuzz(t, {
    name: 'approvals',
    seeds: [APPROVAL, DECISION],
    decode: (bytes) => {
      const request = decodeApproval(bytes)
      if (request) assert.deepEqual(encodeApproval(request), Uint8Array.from(bytes))
      const decision = decodeDecision(bytes)
      if (decision) assert.deepEqual(encodeDecision(decision), Uint8Array.from(bytes))
    },
  })
  const record = encodeRecord(APPROVAL, [{ publicKey: HASH, decision: DECISION }])
  await fuzz(t, {
    ...texts('approval-records', [record], (text) => checkRecord(text, { from: [], need: 0, action: HASH })),
    isRefusal: (error) => error instanceof StaticError,
  })
})

test('requests, answers and frames about them', async (t) => {
  await fuzz(t, {
    name: 'asks',
    seeds: [
      encodeRequest({ to: 'ab'.repeat(32), lifetimeMs: 1000, payload: ID }),
      encodeAnswer(ID, 7, HASH),
      encodeAnswerEnd({
        requestId: ID,
        number: 1,
        content: { error: { code: 'not_found', message: 'No such thing' } },
      }),
      encodeAnswerEnd({ requestId: ID, number: 1, content: undefined }),
      encodeAnswerEnd({ requestId: ID, number: 2, content: { payload: HASH } }),
      encodeMore(ID, 3),
      encodeCancel(ID),
      encodeRefused([ID, ID]),
    ],
    decode: (bytes) => {
      const request = decodeRequest(bytes)
      if (request) assert.deepEqual(encodeRequest(request), Uint8Array.from(bytes))
      const answer = decodeAnswer('answer', bytes)
      if (answer?.content && 'payload' in answer.content) {
        const { requestId, number, content } = answer
        assert.deepEqual(encodeAnswer(requestId, number, content.payload), Uint8Array.from(bytes))
      }
      const end = decodeAnswer('answer_end', bytes)
      if (end?.content && 'error' in end.content) assert.ok(end.content.error.message.length <= 1001)
      else if (end) assert.deepEqual(encodeAnswerEnd(end), Uint8Array.from(bytes))
      const cancelled = decodeCancel(bytes)
      if (cancelled) assert.deepEqual(encodeCancel(cancelled), Uint8Array.from(bytes))
      const more = decodeMore(bytes)
      if (more) assert.deepEqual(encodeMore(more.requestId, more.read), Uint8Array.from(bytes))
      const refused = decodeRefused(bytes)
      if (refused) assert.deepEqual(encodeRefused(refused), Uint8Array.from(bytes))
    },
  })
})

/** Lists of invites, signed by their owner, in frames; and a member that has one of them. */
async function listsOf(
  owner: Agent,
): Promise<{ frames: readonly Uint8Array[]; member: ListedInvites; known: Set<string> }> {
  const sign = ed25519.signer(owner.key)
  const invite = (n: number): { id: string; members: Uint8Array; expiresAt: number; maxUses: number } => {
    return { id: n.toString(16).padStart(32, '0'), members: HASH, expiresAt: 2 ** 41, maxUses: n + 1 }
  }
  const frames = [1, 0, 16].map((count, n) => {
    const list = { number: n + 1, slot: n, invites: Array.from({ length: count }, (_, at) => invite(at)) }
    const signed = Buffer.concat([encodeList(list), sign(listBytes(ID, list))])
    return encodeListFrame(
      signed,
      7,
      Array.from({ length: count }, (_, at) => (at === 0 ? undefined : at)),
    )
  })
  const known = new Set(
    frames.map((frame) => JSON.stringify(decodeList(decodeListFrame(frame)?.signed ?? HASH)?.invites)),
  )
  const ownerId = Buffer.from(owner.agentId).toString('hex')
  const group = { members: new Map([[ownerId, { signatureKey: owner.key.publicKey }]]) }
  const sender = { send: () => Promise.reject(new Error('no relay')), isPending: () => false }
  const turn = { touchPart: () => {} }
  const history = { position: { slot: 7 } }
  const channel = { id: 'c', channelId: ID, name: NAME, owner: ownerId, group, history, sender, turn }
  const context = { agentId: 'me', now: () => 0, emit: () => {}, invites: undefined }
  const none = { record: { removalSlot: 0 }, inviteList: undefined, uses: [], claims: [] }
  const member = new ListedInvites(context as never, channel as never, none)
  Object.assign(channel, { listedInvites: member })
  return { frames, member, known }
}

test('lists of invites: each has one encoding, and a member takes none that the owner has not signed', async (t) => {
  const { agents } = await channelOf('owner')
  const { frames, member, known } = await listsOf(agents[0] as Agent)
  member.receive('invites', 'any', frames[0] ?? HASH)
  await fuzz(t, {
    name: 'invite-lists',
    seeds: frames.slice(0, 2),
    words: frames.slice(2),
    decode: (bytes) => {
      const frame = decodeListFrame(bytes)
      if (frame) {
        const { slot } = frame.counts.find((count) => count !== undefined) ?? { slot: undefined }
        const counts = frame.counts.map((count) => count?.count)
        if (slot !== undefined) assert.deepEqual(encodeListFrame(frame.signed, slot, counts), Uint8Array.from(bytes))
        const list = decodeList(frame.signed)
        if (list) assert.deepEqual(Buffer.concat([encodeList(list), list.signature]), Buffer.from(frame.signed))
        if (list) assert.ok(list.invites.length <= 16)
      }
      member.receive('invites', 'any', bytes)
      assert.ok(known.has(JSON.stringify(member.invites)), 'a list of someone else')
      member.drain()
      // One that would take the place of any other.
      if (bytes.length >= 16) member.receive('invites', 'any', Buffer.from(bytes).fill(HIGH, 8, 16))
      assert.deepEqual(member.drain(), [], 'a list that the owner has not signed')
    },
  })
})

test('claims, and what a member keeps of them', async (t) => {
  const claim = (n: number): { invite: string; agent: string } => {
    return { invite: 'ab'.repeat(16), agent: n.toString(16).padStart(64, '0') }
  }
  const { agents } = await channelOf('owner')
  const { member } = await listsOf(agents[0] as Agent)
  await fuzz(t, {
    name: 'claims',
    seeds: [1, 2, 16].map((count) => encodeClaims(Array.from({ length: count }, (_, n) => claim(n)))),
    decode: (bytes) => {
      const claims = decodeClaims(bytes)
      if (claims) assert.deepEqual(encodeClaims(claims), Uint8Array.from(bytes))
      member.receive('claim', 'any', bytes)
      for (const change of member.drain()) if (change.type === 'putClaim') assert.ok(change.claim.claims.length <= 768)
    },
  })
})

test('join requests by a holder of the token', async (t) => {
  const keys = inviteKeys(HASH)
  const place = { channelId: ID, name: NAME, owner: HASH }
  const { keyPackage } = await new Agent('joiner').keyPackage()
  await fuzz(t, {
    name: 'join-requests',
    seeds: [Buffer.concat([ID, keyPackage])],
    decode: async (bytes) => {
      assert.equal(openRequest(keys, place, bytes), undefined)
      assert.equal(openRequest(keys, place, sealBox(keys, bytes)), undefined, 'a tag that does not fit')
      const request = { nonce: bytes.slice(0, 16), keyPackage: bytes.slice(16) }
      const opened = openRequest(keys, place, sealRequest(keys, place, request))
      if (request.keyPackage.length > 0) assert.deepEqual(opened, request)
      await engine.checkKeyPackage(request.keyPackage, Date.now(), HASH).catch(refusal)
    },
  })
})

test('invite tokens, agent ids and endpoints', async (t) => {
  const token = {
    admit: 'owner' as const,
    expiresAt: 9,
    secret: HASH,
    owner: HASH,
    channelId: ID,
    name: NAME,
    relay: 'relay.example',
  }
  const encoded = encodeToken(token)
  // Found by this test: the relay's name was not checked, and error messages showed it.
  const raw = Buffer.from(encoded.slice(PREFIX.length), 'base64url')
  const odd = `${PREFIX}${Buffer.from(raw.with(raw.length - 11, 0x8c)).toString('base64url')}`
  await fuzz(
    t,
    texts('tokens', [encoded, odd], (text) => {
      assert.equal(encodeToken(decodeToken(text)), text.trim())
    }),
  )
  const ids = ['ab'.repeat(32), 'abab abab abab abab abab abab abab abab abab abab abab abab abab abab abab abab']
  await fuzz(
    t,
    texts('agent-ids', ids, (text) => parseAgentId(text)),
  )
  const endpoints = ['quic://localhost:4433', 'https://[::1]:443', 'quic://a.example:1,b.example:2', 'quic://a']
  await fuzz(
    t,
    texts('endpoints', endpoints, (text) => parseEndpoint(text)),
  )
})

test('invite links, with a checksum that fits', async (t) => {
  const port = Buffer.of(0x11, 0x51)
  const token = Buffer.from(
    encodeToken({
      admit: 'owner',
      expiresAt: 9,
      secret: HASH,
      owner: HASH,
      channelId: ID,
      name: NAME,
      relay: 'localhost',
    }).slice('st_inv_'.length),
    'base64url',
  )
  const length = Buffer.of(0, token.length)
  const host = Buffer.from('localhost')
  const body = [
    Buffer.of(1, 0),
    port,
    Buffer.of(1),
    port,
    Buffer.of(host.length),
    host,
    HASH,
    Buffer.of(0),
    length,
    token,
  ]
  await fuzz(t, {
    name: 'links',
    seeds: [Buffer.concat(body)],
    words: [token, host],
    decode: (bytes) => {
      const checksum = hash('sha256', Buffer.concat([Buffer.from('static link 1'), bytes]), 'buffer').subarray(0, 4)
      parseInviteLink(`static://${Buffer.concat([bytes, checksum]).toString('base64url')}`)
    },
  })
})

test('MLS messages, KeyPackages, Welcomes and groups', async (t) => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann] = agents as [Agent, Agent]
  const joiner = new Agent('cid')
  const cid = await joiner.keyPackage()
  const commit = await bare(ann, [])
  const { welcomes } = await owner.commit({ adds: [cid.keyPackage] })
  const sealed = welcomes[0]?.welcome ?? HASH
  const kinds = ['mls_key_package', 'mls_private_message', 'mls_welcome'] as const
  await fuzz(t, {
    name: 'mls-messages',
    seeds: [cid.keyPackage, commit, ann.send('hello'), sealed, opened(sealed, cid.privatePart, joiner)],
    decode: (bytes) => {
      for (const kind of kinds) {
        const message = decodeMessage(kind, bytes)
        // A decoder that takes what it would write otherwise lets two members see two things.
        if (message && kind === 'mls_private_message')
          assert.deepEqual(encodeMlsMessage({ version: 'mls10', wireformat: kind, ...message } as never), bytes)
        if (message && 'keyPackage' in message) isKeyPackageBounded(message.keyPackage)
      }
      const parts = parseSealedWelcome(bytes)
      if (parts) {
        const { head, sealed: ownPart, groupInfo } = parts
        assert.deepEqual(Buffer.concat([head, ownPart, groupInfo]), Buffer.from(bytes))
      }
      parsePrivateMessage(bytes)
      engine.welcomeRefs(bytes)
      engine.epochOf(bytes)
    },
  })
  await fuzz(t, {
    name: 'mls-groups',
    seeds: [encodeState(inside(owner.group).state), encodeState(inside(ann.group).state)],
    decode: (bytes) => decodeState(bytes),
  })
  const context = encodeContext({ name: NAME, ...ownedBy(HASH) })
  await fuzz(t, {
    name: 'mls-contexts',
    seeds: [context],
    decode: (bytes) => {
      const decoded = decodeContext(bytes)
      if (decoded) assert.deepEqual(Buffer.from(encodeContext(decoded)), Buffer.from(bytes))
    },
  })
})

test('KeyPackages of others, Welcomes and commits that pass the decoder', async (t) => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  const cid = new Agent('cid')
  const own = await cid.keyPackage()
  const commit = await bare(ann, [])
  const { welcomes } = await owner.commit({ adds: [own.keyPackage] })
  const sealed = welcomes[0]?.welcome ?? HASH
  const { groupInfo } = parseSealedWelcome(sealed)!
  const whole = opened(sealed, own.privatePart, cid)
  const ownPart = whole.subarray(0, whole.length - groupInfo.length)
  const { recipient } = await checkKeyPackage(crypto, own.keyPackage, CHANNEL_EXTENSIONS, Date.now())
  const nothing = { adds: [], removes: [], leaveNotices: [], vouches: [] }
  await fuzz(t, {
    name: 'mls-engine',
    seeds: [own.keyPackage, commit, sealed, ownPart],
    decode: async (bytes) => {
      await engine.process(owner.group, bytes, { declaration: nothing, declarer: ann.agentId })
      await engine.checkKeyPackage(bytes, Date.now()).catch(refusal)
      await engine.join(bytes, own.privatePart, cid.key, {}).catch(refusal)
      // As by a member that admits: a seal that opens, around anything.
      const part = bytes.subarray(0, MOST_OWN_BYTES)
      const welcome = Buffer.concat([sealWelcome(part, sha256(groupInfo), recipient, undefined), groupInfo])
      await engine.join(welcome, own.privatePart, cid.key, {}).catch(refusal)
    },
  })
})

test("the driver's pipe", async (t) => {
  const frame = Buffer.concat(encodePipeFrame({ id: 1, do: 'channels' }, Buffer.from('bytes')))
  await fuzz(t, {
    name: 'driver-pipe',
    seeds: [frame, Buffer.concat([frame, frame])],
    words: ['{', '[', '"', '{"id":1}', Uint8Array.of(0, 0, 0, 6, 0, 0, 0, 2, 0x7b, 0x7d)],
    decode: (bytes) => new PipeFrameReader().push(Buffer.from(bytes)),
    isRefusal: (error) => error instanceof RangeError,
  })
})

/** The Welcome inside a seal. */
function opened(welcome: Uint8Array, privatePart: Uint8Array, { key }: Agent): Uint8Array {
  return openSealedWelcome(parseSealedWelcome(welcome)!, decodeOwn(privatePart, key).sealPair, undefined)
}

function refusal(error: unknown): void {
  if (!(error instanceof Error && 'code' in error && error.name.endsWith('Error'))) throw error
}
