/**
 * The options of a client, each once. `npm run gen` writes the type of the options (`gen/client-options`) and the
 * Python clients' (`python/static_sdk/_configured.py`) from this table; `settings.ts` and the flags of the command line
 * look things up in it.
 *
 * In a text, names and values of options are in backquotes, as they are in TypeScript, and `{least}` or `{most}` is that
 * of the option. The first five can be given by position in Python.
 */
import { RECEIPT_MODES, type ReceiptMode, TRAFFIC_PROFILES, type TrafficProfileName } from '@static/protocol'
import type { Credentials } from '../account/user-files.ts'
import type { ClientOptions } from '../gen/client-options.ts'
import { OFFER_POLICIES, type OfferPolicy } from '../joining/offers.ts'

interface About {
  readonly about: string
  /** Environment variable to fall back to. */
  readonly variable?: `STATIC_${string}`
  /** Field of the per-user file to fall back to. */
  readonly file?: keyof Credentials
  /** The default in words, if it is no fixed value. */
  readonly otherwise?: string
}

/** One of some words. */
export interface ChoiceOption<Word extends string = string> extends About {
  readonly kind: 'choice'
  readonly choices: readonly Word[]
  readonly usual: Word
}

/** An integer. */
export interface IntegerOption extends About {
  readonly kind: 'integer'
  readonly least: number
  readonly most: number
}

/** Milliseconds; in Python, seconds. */
export interface DurationOption extends About {
  readonly kind: 'duration'
  readonly least: number
  readonly most: number
  readonly usual: number
}

/** True or false. */
export interface FlagOption extends About {
  readonly kind: 'flag'
  readonly usual: boolean
}

/**
 * A text, texts, a path, a secret (where null means none), bytes or a text, what unlocks the database, where proofs come
 * from, whether to keep a history, or a logger.
 */
export interface PlainOption extends About {
  readonly kind: 'text' | 'texts' | 'path' | 'secret' | 'bytes' | 'key' | 'proof' | 'history' | 'logger'
}

export type ClientOption = ChoiceOption | IntegerOption | DurationOption | FlagOption | PlainOption

/** The kind of option that has values of this type. */
type OptionOf<Name, Value> = [Value] extends [boolean]
  ? FlagOption
  : [Value] extends [number]
    ? Name extends `${string}Ms`
      ? DurationOption
      : IntegerOption
    : [Value] extends [OfferPolicy | ReceiptMode | TrafficProfileName]
      ? ChoiceOption<Value>
      : PlainOption

export const OPTIONS: {
  readonly [Name in keyof ClientOptions]-?: OptionOf<Name, Exclude<ClientOptions[Name], undefined>>
} = {
  endpoint: {
    kind: 'text',
    about:
      'Address of the relay, `quic://host:4433` or `https://host:5000`, or several of one kind, separated by commas: the nodes of one relay, dialed in random order until one answers.',
    variable: 'STATIC_RELAY',
    file: 'relay',
  },
  dataDir: {
    kind: 'path',
    about: "Directory of the agent's database; not shared with other agents.",
    variable: 'STATIC_DATA_DIR',
  },
  identity: {
    kind: 'bytes',
    about: "The agent's name: 1 to 255 bytes, the first not zero; a string is encoded as UTF-8.",
    variable: 'STATIC_IDENTITY',
  },
  apiKey: {
    kind: 'secret',
    about:
      'API key of the account that the agent acts for. `null` makes the agent a guest even if a key is set elsewhere: it can use channels but not create them.',
    variable: 'STATIC_API_KEY',
    file: 'api_key',
  },
  apiUrl: {
    kind: 'text',
    about: 'https URL of the API, which exchanges the key for tokens.',
    variable: 'STATIC_API_URL',
    file: 'api_url',
  },
  ca: {
    kind: 'path',
    about: "CA of the relay's and the API's certificates, as a path or PEM text.",
    variable: 'STATIC_CA',
    file: 'ca',
  },
  relayName: {
    kind: 'text',
    about: "Name in the relay's certificate if it is not the host of the endpoint: for IP addresses and several hosts.",
    variable: 'STATIC_RELAY_NAME',
    file: 'relay_name',
  },
  account: {
    kind: 'text',
    about:
      'Name of the account on this machine, one that `static login --account` has saved, instead of the one without a name. Its key, API, relay and CA come from options or its file alone, never from variables.',
    variable: 'STATIC_ACCOUNT',
  },
  link: {
    kind: 'text',
    about:
      'An invite link, for an agent that has no relay yet: the link gives its address, name and CA, and the agent stores them in `dataDir`. At a relay it knows only from a link, the agent is a guest, unless the same endpoint is configured here.',
  },
  traffic: { kind: 'choice', about: 'Traffic profile.', choices: TRAFFIC_PROFILES, usual: 'standard' },
  cellsPerSecond: {
    kind: 'integer',
    about: 'Cells per second of the `strict` profile, {least} to {most}, which is the highest rate that relays accept.',
    least: 1,
    most: 64,
    otherwise: '4',
  },
  visibleFiles: {
    kind: 'flag',
    about:
      'Whether files may be sent and fetched with the traffic profiles `private` and `strict`, although the network then sees when that happens and how large they are.',
    usual: false,
  },
  offers: {
    kind: 'choice',
    about:
      'The agents whose offers to join a channel are accepted: `anyone`, those met in a channel (`known`), or `none`.',
    choices: OFFER_POLICIES,
    usual: 'anyone',
  },
  receipts: {
    kind: 'choice',
    about:
      "The level that this agent's signed receipts report to the other members of a channel: `settled`, how far the application has settled messages; `delivered`, only how far they were received; or `off`, nothing.",
    choices: RECEIPT_MODES,
    usual: 'settled',
  },
  history: {
    kind: 'history',
    about:
      'For how many days, 1 to 365, the agent keeps the messages that were settled and those that it has sent, in its encrypted database, for `static channel history` and, in TypeScript, `Channel.history`. The agent remembers it, and follows it in whatever program opens it. `false`: keep none, and erase what is kept.',
    otherwise: 'as the agent was last told; a new agent keeps none',
  },
  key: {
    kind: 'key',
    about: "The key that unlocks the agent's database.",
    otherwise: 'the file `agent.key` in `dataDir`',
  },
  roots: {
    kind: 'texts',
    about:
      'The issuers that this agent trusts to say who runs another agent: a domain (`acme.example`), `github:acme/app` or `oidc:https://issuer.example`.',
    otherwise: 'the list of the account (`static trust`)',
  },
  proof: {
    kind: 'proof',
    about:
      'Where this agent’s own proof comes from, which it shows only in channels that say so (`show`): `github-actions`, a file with a JWT, or a function that gets a token for an audience.',
    otherwise: 'the statements in `dataDir` (`static agent add-proof`)',
  },
  logger: {
    kind: 'logger',
    about:
      'Gets a warning, with the stack but without the payload, when a handler of `handle` or `serve` fails; `false`: none.',
    otherwise: 'stderr, in Python through `logging`, unless the program reads `events()`',
  },
  fallback: { kind: 'flag', about: 'Whether to use gRPC if QUIC cannot connect.', usual: true },
  grpcPort: {
    kind: 'integer',
    about: "gRPC port of the relay's host, used if QUIC cannot connect.",
    least: 1,
    most: 65_535,
    otherwise: 'the port the relay announced in an earlier session, otherwise 5000',
    variable: 'STATIC_GRPC_PORT',
  },
  acceptRelay: {
    kind: 'text',
    about:
      'Id of the relay, 64 hexadecimal digits, to accept instead of the one this agent knows. Take it from `relay_changed`, once you know that the operator has set up the relay again. The channels of the old relay end.',
  },
  acceptRolledBack: {
    kind: 'flag',
    about:
      'Open the database even if it is an old copy. Use it only to leave its channels: sending would use keys twice.',
    usual: false,
  },
  connectTimeoutMs: {
    kind: 'duration',
    about: 'Timeout in {unit} of one attempt to reach the relay.',
    least: 1,
    most: 600_000,
    usual: 5_000,
  },
  wait: {
    kind: 'flag',
    about: 'Start even if the relay or the API cannot be reached: the agent connects when it can.',
    usual: false,
  },
}
