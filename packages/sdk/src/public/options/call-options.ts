/**
 * The options of every call, each once: a call refuses an option that it does not know, with the nearest name, or one
 * of another type. Each call checks its values further. The options of a client are in
 * option-table.ts.
 */
import { inspect } from 'node:util'
import { checkOptionNames, StaticError } from '@static/protocol'
import type { ServeOptions } from '../../channel/asking/serving.ts'
import type { HandleOptions } from '../../channel/receiving/handling.ts'
import type {
  AddOptions,
  AskOneOptions,
  AskOptions,
  CatchUpOptions,
  HistoryOptions,
  SendOptions,
} from './channel-options.ts'
import type { ApprovalOptions, DecideOptions } from './approval-options.ts'
import type { ReadFileOptions, SaveFileOptions, SendFileOptions } from './file-options.ts'
import type { CreateOptions, InviteOptions, JoinOptions, LinkOptions, ShowOptions } from './invite-options.ts'
import type { ReachedOptions } from '../receipt-view.ts'
import { isSchema, type SchemaOption, type StandardSchema } from '../standard-schema.ts'

type AnySchema = SchemaOption<StandardSchema | undefined>

/** The options of each call. */
interface CallOptions {
  readonly send: SendOptions
  readonly sendJson: SendOptions & AnySchema
  readonly handle: HandleOptions & AnySchema
  readonly ask: AskOptions
  readonly askOne: AskOneOptions
  readonly askJson: AskOneOptions & AnySchema
  readonly serve: ServeOptions & AnySchema
  readonly reached: ReachedOptions
  readonly waitForMember: SendOptions
  readonly addMember: AddOptions
  readonly addMembers: AddOptions
  readonly catchUp: CatchUpOptions
  readonly history: HistoryOptions
  readonly createChannel: CreateOptions
  readonly joinChannel: JoinOptions
  readonly joinWithToken: ShowOptions
  readonly joinWithLink: ShowOptions
  readonly accept: ShowOptions
  readonly invite: InviteOptions
  readonly inviteLink: LinkOptions
  readonly sendFile: SendFileOptions
  readonly save: SaveFileOptions
  readonly stream: ReadFileOptions
  readonly requestApproval: ApprovalOptions
  readonly decide: DecideOptions
  readonly outcome: SendOptions
  readonly spend: SendOptions
}

const KINDS = {
  number: { words: 'a number', fits: (value: unknown) => typeof value === 'number' },
  flag: { words: 'true or false', fits: (value: unknown) => typeof value === 'boolean' },
  text: { words: 'a string', fits: (value: unknown) => typeof value === 'string' },
  list: { words: 'an array', fits: (value: unknown) => Array.isArray(value) },
  texts: { words: 'an array of strings', fits: isTexts },
  show: {
    words: 'a string or true',
    fits: (value: unknown) => value === true || (typeof value === 'string' && value !== ''),
  },
  rules: {
    words: 'a rule or an array of rules',
    fits: (value: unknown) => typeof value === 'string' || (typeof value === 'object' && value !== null),
  },
  function: { words: 'a function', fits: (value: unknown) => typeof value === 'function' },
  signal: { words: 'an AbortSignal', fits: isSignal },
  schema: { words: 'a Standard Schema (https://standardschema.dev)', fits: isSchema },
} as const

const LIMITS = { signal: 'signal', timeout: 'number' } as const
const ASK = { to: 'text', ...LIMITS } as const
const ADD = { acceptNewKey: 'flag', require: 'rules' } as const
const INVITE = { maxUses: 'number', ttl: 'number', admit: 'text', require: 'rules', replace: 'flag' } as const
const SHOW = { show: 'show' } as const

/** The kind of each option. */
const CALLS: {
  readonly [Call in keyof CallOptions]: { readonly [Name in keyof CallOptions[Call]]-?: keyof typeof KINDS }
} = {
  send: LIMITS,
  sendJson: { ...LIMITS, schema: 'schema' },
  handle: { concurrency: 'number', attempts: 'number', signal: 'signal', schema: 'schema' },
  ask: ASK,
  askOne: ASK,
  askJson: { ...ASK, schema: 'schema' },
  serve: { concurrency: 'number', perAsker: 'number', signal: 'signal', schema: 'schema' },
  reached: { by: 'texts', ...LIMITS },
  waitForMember: LIMITS,
  addMember: ADD,
  addMembers: ADD,
  catchUp: { signal: 'signal' },
  history: { before: 'number', limit: 'number' },
  createChannel: { ...SHOW, require: 'rules' },
  joinChannel: { owner: 'text', ...SHOW },
  joinWithToken: SHOW,
  joinWithLink: SHOW,
  accept: SHOW,
  invite: INVITE,
  inviteLink: { ...INVITE, endpoint: 'text' },
  sendFile: { name: 'text', type: 'text', text: 'text', progress: 'function', signal: 'signal' },
  save: { progress: 'function', signal: 'signal' },
  stream: { signal: 'signal' },
  requestApproval: { from: 'list', need: 'number', asked: 'function', ...LIMITS },
  decide: { attended: 'flag' },
  outcome: LIMITS,
  spend: LIMITS,
}

/**
 * Checks the options of a call. One that is undefined counts as not given.
 *
 * @throws {StaticError} `invalid_request`
 */
export function checkOptions<Call extends keyof CallOptions>(call: Call, options: CallOptions[Call]): void {
  const kinds: Readonly<Record<string, keyof typeof KINDS>> = CALLS[call]
  checkOptionNames(call, options, Object.keys(kinds))
  for (const [name, value] of Object.entries(options)) {
    const kind = kinds[name]
    if (kind === undefined || value === undefined || KINDS[kind].fits(value)) continue
    throw StaticError.of(
      'invalid_request',
      `\`${name}\` of \`${call}\` is ${shownValue(value)}. It must be ${KINDS[kind].words}.`,
    )
  }
}

/**
 * Checks the handler of `handle` or `serve`: with another value, each message would fail.
 *
 * @throws {StaticError} `invalid_request`
 */
export function checkHandler(call: 'handle' | 'serve', handler: unknown): void {
  if (typeof handler === 'function') return
  throw StaticError.of(
    'invalid_request',
    `The handler of \`${call}\` is ${shownValue(handler)}. It must be a function.`,
  )
}

/**
 * Checks a timeout that a call takes by position.
 *
 * @throws {StaticError} `invalid_request`
 */
export function checkSeconds(call: string, seconds: unknown): void {
  if (typeof seconds === 'number' && seconds >= 0) return
  throw StaticError.of(
    'invalid_request',
    `\`timeout\` of \`${call}\` is ${shownValue(seconds)}. It must be a number of seconds.`,
  )
}

/** A wrong value, for an error message. */
export function shownValue(value: unknown): string {
  return inspect(value, { depth: 0, maxStringLength: 100, breakLength: Infinity })
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === 'string')
}

/** Also one of another realm. */
function isSignal(value: unknown): boolean {
  return Object.prototype.toString.call(value) === '[object AbortSignal]'
}
