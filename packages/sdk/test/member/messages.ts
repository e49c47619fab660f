/** Messages and receipts of a malicious member: frames that lie, bodies of any kind and size, ciphertexts of anything. */
import { sha256 } from '#platform/crypto'
import {
  encodeReceipt,
  MAX_CIPHERTEXT_BYTES,
  MAX_PAYLOAD_BYTES,
  RECEIPT_BYTES,
  receiptBytes,
  toHex,
} from '@static/protocol'
import {
  encodeAnswer,
  encodeAnswerEnd,
  encodeMore,
  encodeRefused,
  encodeRequest,
  MOST_LIFETIME_MS,
} from '../../src/channel/asking/ask-frame.ts'
import { decodeFrame, encodeFrame, type Frame, type FrameKind } from '../../src/channel/sending/message-frame.ts'
import { encodePack, packIdOf } from '../../src/channel/sending/pack.ts'
import { encodeFile, partsOfFile } from '../../src/files/file-frame.ts'
import { ed25519 } from '../../src/mls/index.ts'
import { engine } from '../mls/support.ts'
import type { Attack, Effect, Scene } from './attack.ts'
import type { Attacker } from './attacker.ts'

const KINDS: readonly FrameKind[] = [
  'payload',
  'heartbeat',
  'hello',
  'greeting',
  'request',
  'answer',
  'answer_end',
  'cancel',
  'more',
  'invites',
  'claim',
  'refused',
  'proof',
  'prove',
  'approval',
  'decision',
]
/** Requests of one asker that a channel holds, and some more. */
const FLOOD = 280

/** An honest frame but for its kind, its body and what is changed in it. */
export function frameOf(
  attacker: Attacker,
  kind: FrameKind,
  payload: Uint8Array,
  change: Partial<Frame> = {},
): Uint8Array {
  return encodeFrame({
    messageId: packIdOf(attacker.noise(16)),
    counter: attacker.counter + 1,
    previous: attacker.previous,
    seen: attacker.stage.position,
    ...change,
    kind,
    payload,
  })
}

/** Says a frame that lies: everybody must notice. */
function lie({ attacker }: Scene, change: Partial<Frame>): Effect {
  attacker.say(frameOf(attacker, 'payload', Buffer.from('a lie'), change))
  return { fork: attacker.agentId }
}

/** The body of a request, an answer or a word about one, sometimes malformed. */
function bodyOf({ attacker, stage, victim }: Scene, kind: FrameKind): Uint8Array {
  const own = stage.log.findLast(({ sender }) => sender === victim.agentId)
  const asked = own?.kind === 'message' ? own.request.messageId : attacker.noise(16)
  const requestId = attacker.pick([asked, attacker.noise(16)])
  const number = attacker.pick([0, 1, attacker.below(1000), 0xffff_ffff])
  const payload = attacker.noise(attacker.pick([0, 1, 100, 10_000]))
  const bodies: Partial<Record<FrameKind, () => Uint8Array>> = {
    request: () => {
      const to = attacker.pick([undefined, victim.agentId, toHex(attacker.noise(32))])
      const lifetimeMs = attacker.pick([1, 1000, MOST_LIFETIME_MS, MOST_LIFETIME_MS + 1])
      return encodeRequest({ to, lifetimeMs, payload })
    },
    answer: () => encodeAnswer(requestId, number, payload),
    answer_end: () => {
      const error = { code: attacker.pick(['x', 'not_found', 'A', '']), message: '\u0007'.repeat(attacker.below(5000)) }
      return encodeAnswerEnd({ requestId, number, content: attacker.pick([undefined, { payload }, { error }]) })
    },
    cancel: () => requestId,
    more: () => encodeMore(requestId, number),
    refused: () => encodeRefused([requestId, asked]),
  }
  const body = bodies[kind]?.() ?? attacker.noise(attacker.size(2000))
  return attacker.below(3) === 0 ? attacker.spoil(Buffer.concat([body, Uint8Array.of(0)])) : body
}

const bodies = KINDS.map((kind): Attack => [
  `a ${kind} of anything`,
  (scene) => {
    const { attacker } = scene
    for (let round = 0; round < 4; round++) attacker.say(frameOf(attacker, kind, bodyOf(scene, kind)))
    return {}
  },
])

export const MESSAGES: readonly Attack[] = [
  ...bodies,
  [
    'the largest payload',
    ({ attacker }) => {
      attacker.say(frameOf(attacker, 'payload', new Uint8Array(MAX_PAYLOAD_BYTES)))
      return {}
    },
  ],
  [
    'a frame of another version or kind, or too short for one',
    ({ attacker }) => {
      const frame = Buffer.from(frameOf(attacker, 'payload', attacker.noise(40)))
      const shapes = [
        () => frame.fill(attacker.pick([0, 2, 255]), 0, 1),
        () => frame.fill(attacker.pick([99, 255]), 1, 2),
        () => frame.subarray(0, attacker.below(98)),
      ]
      const shaped = attacker.pick(shapes)()
      // Members that read it know its hash; who cannot, expects the frame before.
      const isFrame = shaped.length >= 98 && shaped[0] !== 0
      attacker.put(attacker.mls.send(shaped), frame.slice(2, 18))
      if (isFrame) attacker.previous = sha256(shaped)
      return isFrame ? {} : { hole: true }
    },
  ],
  [
    'a pack of as many payloads as it likes, or damaged',
    ({ attacker }) => {
      const count = attacker.pick([0, 1, 2, 16, 17, 300])
      // More would not fit into a message.
      const lengths = count > 17 ? [0, 1, 50] : [0, 1, 50, 1050, 9000]
      const payloads = Array.from({ length: count }, () => attacker.noise(attacker.pick(lengths)))
      const whole = encodePack(payloads)
      const isWhole = attacker.below(2) === 0
      const frame = frameOf(
        attacker,
        'pack',
        isWhole ? whole : attacker.spoil(Buffer.concat([whole, Uint8Array.of(0)])),
      )
      attacker.put(attacker.mls.send(frame), frame.slice(2, 18))
      const isFrame = decodeFrame(frame) !== undefined
      if (isFrame) attacker.previous = sha256(frame)
      return isFrame ? {} : { hole: true }
    },
  ],
  [
    'a file, or a damaged message about one',
    ({ attacker }) => {
      const size = attacker.pick([0, 65_536, 1_048_577, 5_000_000])
      const whole = encodeFile({
        fileId: attacker.noise(16),
        secret: attacker.noise(32),
        size,
        name: attacker.pick(['a.txt', '../../etc/passwd', 'NUL', '\u202e', 'x'.repeat(300)]),
        type: attacker.pick(['', 'text/plain']),
        text: '',
        digests: attacker.noise(32 * partsOfFile(size)),
      })
      const frame = frameOf(attacker, 'file', attacker.below(2) === 0 ? whole : attacker.spoil(whole))
      attacker.put(attacker.mls.send(frame), frame.slice(2, 18))
      const isFrame = decodeFrame(frame) !== undefined
      if (isFrame) attacker.previous = sha256(frame)
      return isFrame ? {} : { hole: true }
    },
  ],
  [
    'a pack, a payload or a file whose id has the number of a payload',
    ({ attacker }) => {
      const kind = attacker.pick<FrameKind>(['pack', 'payload', 'file'])
      const payload = encodePack([Buffer.from('one'), Buffer.from('two')])
      const frame = frameOf(attacker, kind, payload, { messageId: attacker.noise(16).with(15, 1 + attacker.below(15)) })
      attacker.put(attacker.mls.send(frame), frame.slice(2, 18))
      return { hole: true }
    },
  ],
  [
    'a hash of the log that differs',
    (scene) => lie(scene, { seen: { ...scene.stage.position, hash: new Uint8Array(32) } }),
  ],
  [
    'an entry that does not exist',
    (scene) => {
      const { attacker, stage } = scene
      const index = stage.position.index + attacker.pick([1, 1000, 2 ** 52])
      return lie(scene, { seen: { index, hash: stage.position.hash } })
    },
  ],
  [
    'another counter than the relay’s',
    (scene) => ({
      ...lie(scene, { counter: scene.attacker.pick([0, scene.attacker.counter + 2, 2 ** 52]) }),
      hole: true,
    }),
  ],
  [
    'another frame before this one',
    (scene) => {
      const { attacker } = scene
      // Nobody knows the frame before the first.
      if (attacker.counter === 0) attacker.say(frameOf(attacker, 'heartbeat', new Uint8Array()))
      return lie(scene, { previous: attacker.noise(32) })
    },
  ],
  [
    'noise as a message',
    ({ attacker }) => {
      attacker.put(attacker.noise(attacker.size(MAX_CIPHERTEXT_BYTES)))
      return { hole: true }
    },
  ],
  [
    'a damaged message',
    ({ attacker }) => {
      for (let round = 0; round < 10; round++)
        attacker.put(attacker.spoil(attacker.mls.send(attacker.frame('damaged'))))
      return { hole: true }
    },
  ],
  [
    'generations far ahead',
    ({ attacker }) => {
      for (const ahead of [1000, 30_000, 1_000_000, 2 ** 31 - 1]) attacker.put(attacker.claim(ahead))
      return { hole: true }
    },
  ],
  [
    'a message of another epoch',
    ({ attacker }) => {
      const own = engine.facts(attacker.mls.group).epoch
      const epoch = attacker.pick([0n, own - 1n, own + 1n, (1n << 64n) - 1n])
      attacker.put(attacker.numbered(attacker.mls.send(attacker.frame('elsewhere')), epoch))
      return { hole: true }
    },
  ],
  [
    'a commit as a message',
    async ({ attacker }) => {
      attacker.put((await attacker.make([])).commit)
      return { hole: true }
    },
  ],
  [
    'the message of another member as its own',
    ({ attacker, stage }) => {
      const entry = stage.log.findLast(({ kind, sender }) => kind === 'message' && sender !== attacker.agentId)
      if (entry?.kind !== 'message') return undefined
      attacker.put(entry.request.ciphertext, entry.request.messageId)
      return { hole: true }
    },
  ],
  [
    'the message of another member once more in that member’s name, with the relay’s help',
    ({ attacker, stage, owner }) => {
      const again = attacker.reseal()
      if (!again) return undefined
      const { sender } = again
      const cutOff = stage.players.find(({ agentId }) => agentId === sender)
      if (!cutOff || cutOff === owner) return undefined
      // It would know that it has not sent it.
      cutOff.hearing = () => 'lost'
      attacker.put(again.ciphertext, again.messageId, sender)
      return { fork: sender, cutOff, last: true }
    },
  ],
  [
    'a flood of requests',
    ({ attacker, victim }) => {
      const body = encodeRequest({ to: victim.agentId, lifetimeMs: MOST_LIFETIME_MS, payload: new Uint8Array(100) })
      for (let round = 0; round < FLOOD; round++) attacker.say(frameOf(attacker, 'request', body))
      return {}
    },
  ],
]

/** Receipts that the relay passes on. */
export const RECEIPTS: readonly Attack[] = [
  [
    'noise as a receipt',
    ({ attacker, stage }) => {
      const receipt = attacker.noise(attacker.pick([0, RECEIPT_BYTES, RECEIPT_BYTES + 1]))
      for (const player of stage.players) player.mail.set(attacker.agentId, receipt)
      return {}
    },
  ],
  [
    'a signed receipt that says anything',
    ({ attacker, stage }) => {
      const { index, hash } = attacker.pick(stage.positions)
      const far = attacker.pick([index, index + 1000, 2 ** 52])
      const since = attacker.pick([0, index, far])
      const wrong = attacker.below(3) === 0
      const claim = {
        mode: 'settled' as const,
        since,
        index: far,
        hash: wrong ? attacker.noise(32) : hash,
        aside: 0,
        settled: far,
      }
      const signature = ed25519.signer(attacker.mls.key)(receiptBytes(stage.channelId, claim))
      for (const player of stage.players) player.mail.set(attacker.agentId, encodeReceipt({ ...claim, signature }))
      return { hole: true }
    },
  ],
  [
    'the receipt of another member as its own',
    ({ attacker, stage, victim }) => {
      const receipt = stage.receipts.get(victim.agentId)
      if (!receipt) return undefined
      for (const player of stage.players) player.mail.set(attacker.agentId, receipt)
      return {}
    },
  ],
]
