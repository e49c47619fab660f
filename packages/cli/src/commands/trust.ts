/** `static trust`: the issuers whose proofs the agents of this account believe. */
import { resolve } from 'node:path'
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import { userPlaces } from '@static/sdk/account'
import type { Fetched, KeySet, KeyState, ListedRoot, Root, TrustStore } from '@static/sdk/trust'
import { readText } from '../server/input-files.ts'
import { confirm } from '../terminal/ask.ts'
import { examples } from '../terminal/examples.ts'
import { commandLine, note, print, printJson, shortTime, table } from '../terminal/output.ts'
import { withProgress } from '../terminal/progress.ts'

interface Flags {
  readonly as?: string
  readonly json?: boolean
}

/** Flags of commands that fetch keys from a place that they name. */
export interface FetchFlags {
  readonly address?: string
  readonly ca?: string
}

interface AddFlags extends Flags, FetchFlags {
  readonly bundle?: string
  readonly keys?: string
}

const ROOT = 'acme.example, github:OWNER/REPOSITORY, github:OWNER/*, oidc:ISSUER or spiffe:TRUST-DOMAIN'

export function trustCommand(): Command {
  return new Command('trust')
    .addCommand(addCommand())
    .addCommand(listCommand())
    .addCommand(removeCommand())
    .addCommand(acceptCommand())
    .addHelpText(
      'after',
      `
A proof counts only if its issuer is on this list: nothing that a member shows adds to it. Your agents fetch the keys of
each issuer every hour, whether or not anyone shows a proof.
${examples('static trust add acme.example', 'static trust add github:acme/app', 'static trust list')}`,
    )
}

function addCommand(): Command {
  return addFetchFlags(
    new Command('add')
      .description('trust an issuer: fetch its keys now and print their fingerprints')
      .addArgument(new Argument('<root>', ROOT))
      .option('--bundle <file>', 'keys of a SPIFFE trust domain: the file that SPIRE writes')
      .option('--keys <file>', 'keys of the issuer as a JWKS file, which is read instead of fetched')
      .option('--as <identity>', 'only for this agent (default: all agents of the account)'),
  )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Compare the fingerprints with those that the issuer tells you in another way, if you can.
${examples(
  'static trust add acme.example',
  'static trust add github:acme/app',
  'static trust add oidc:https://gitlab.com',
  'static trust add spiffe:acme.example --bundle /run/spire/bundle.json',
)}`,
    )
    .action(add)
}

function listCommand(): Command {
  return new Command('list')
    .description('list the trusted issuers, and whether their keys are current')
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static trust list'))
    .action(list)
}

function removeCommand(): Command {
  return new Command('remove')
    .description('stop trusting an issuer; what your agents have checked with it no longer counts')
    .addArgument(new Argument('<root>', 'as in `static trust list`'))
    .option('--as <identity>', 'only for this agent')
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static trust remove acme.example'))
    .action(remove)
}

function acceptCommand(): Command {
  return new Command('accept-keys')
    .description('accept the keys of an issuer that has replaced all of its keys at once')
    .addArgument(new Argument('<root>', 'as in `static trust list`'))
    .option('--yes', 'skip the confirmation prompt')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
An issuer that adds a new key before it drops the old one needs no confirmation. If all keys change at once, somebody
else may have taken the domain over: ask the issuer.
${examples('static trust accept-keys acme.example')}`,
    )
    .action(acceptKeys)
}

/** Flags for an issuer that is not on the public internet, or not there yet. */
export function addFetchFlags(command: Command): Command {
  return command
    .option('--address <ip:port>', 'connect to this address instead of the one in DNS')
    .option('--ca <file>', "authority of the server's certificate, PEM (default: those of the system)")
}

/** The pinned address and authority from the flags; undefined if none is given. */
export async function pinOf({ address, ca }: FetchFlags): Promise<Root['pin']> {
  const { splitAddress } = await import('@static/sdk/trust')
  if (address !== undefined) splitAddress(address)
  const pem = ca === undefined ? undefined : await readText(ca)
  if (address === undefined && pem === undefined) return undefined
  return { ...(address !== undefined && { address }), ...(pem !== undefined && { ca: pem }) }
}

async function add(text: string, flags: AddFlags): Promise<void> {
  const { afterFetch, NO_KEYS, parseRoot } = await import('@static/sdk/trust')
  if (flags.bundle !== undefined && flags.keys !== undefined) {
    throw StaticError.of('invalid_request', 'Both --bundle and --keys are given. Pass only one of them.')
  }
  const pin = await pinOf(flags)
  const file = flags.bundle ?? flags.keys
  const root = parseRoot(text, {
    ...(file !== undefined && { keys: resolve(file) }),
    ...(pin !== undefined && { pin }),
  })
  const store = await openStore()
  const isRoot = (each: ListedRoot): boolean => each.root.text === root.text
  const known = store.list().find(isRoot)?.root
  const isSame = known?.keys === root.keys && JSON.stringify(known?.pin) === JSON.stringify(root.pin)
  const found = await fetched(root)
  // What is known of it counts also if its keys come in another way from now on.
  const before = known === undefined ? NO_KEYS : store.load(known)
  const afterThis = (now: KeyState): KeyState =>
    afterFetch(root, known !== undefined && isSame ? now : before, found, Date.now())
  const state = usable(root, afterThis(before))
  if (state.waiting !== undefined) throw replaced(root)
  // The keys first: a crash in between leaves keys of a root that nothing uses.
  store.update(root, afterThis)
  let agents: readonly string[] | undefined
  store.change((listed) => {
    agents = agentsAfterAdding(listed.find(isRoot), flags.as)
    return [...listed.filter((each) => !isRoot(each)), { root, ...(agents && { agents }) }]
  })
  const keys = await fingerprints(state.accepted)
  if (flags.json) return printJson({ root: root.text, kind: root.kind, agents: agents ?? null, keys })
  print(`Trusted: ${root.text}${agents ? `, by ${agents.join(', ')}` : ''}. Fingerprints of its keys:`)
  for (const key of keys) print(`  ${key}`)
}

async function list(flags: Flags): Promise<void> {
  const { usableKeys } = await import('@static/sdk/trust')
  const store = await openStore()
  const now = Date.now()
  const roots = await Promise.all(
    store.list().map(async ({ root, agents }) => {
      const state = store.load(root)
      const usable = usableKeys(state, now)
      return {
        root: root.text,
        kind: root.kind,
        agents: agents ?? null,
        keys: await fingerprints(state.accepted),
        waiting: await fingerprints(state.waiting),
        fetched: state.renewedAt === 0 ? null : new Date(state.renewedAt).toISOString(),
        problem: typeof usable === 'string' ? usable : null,
      }
    }),
  )
  if (flags.json) return printJson({ roots })
  if (roots.length === 0) {
    return note(`no issuer is trusted, so no proof counts. \`${commandLine('trust add acme.example')}\` adds one.`)
  }
  const rows = roots.map(({ root, agents, keys, waiting, fetched: at, problem }) => [
    root,
    agents?.join(', ') ?? 'all',
    `${keys.length}`,
    shortTime(at),
    problem ?? (waiting.length > 0 ? 'new keys wait for `trust accept-keys`' : 'current'),
  ])
  print(table(['ROOT', 'AGENTS', 'KEYS', 'FETCHED', 'STATE'], rows))
}

async function remove(text: string, flags: Flags): Promise<void> {
  const store = await openStore()
  const { root } = find(store.list(), text)
  let left: readonly string[] = []
  store.change((listed) => {
    const { agents } = find(listed, text)
    const others = listed.filter((each) => each.root.text !== root.text)
    left = flags.as === undefined ? [] : agentsWithout(root, agents, flags.as)
    return left.length === 0 ? others : [...others, { root, agents: left }]
  })
  if (left.length === 0) store.forget(root)
  if (flags.json) return printJson({ root: root.text, agents: left })
  print(left.length === 0 ? `Removed ${root.text}.` : `Removed ${root.text} for ${flags.as}. Left: ${left.join(', ')}.`)
}

async function acceptKeys(text: string, flags: Flags & { readonly yes?: boolean }): Promise<void> {
  const { afterAccepting, afterFetch } = await import('@static/sdk/trust')
  const store = await openStore()
  const { root } = find(store.list(), text)
  const found = await fetched(root)
  const afterThis = (known: KeyState): KeyState => afterFetch(root, known, found, Date.now())
  const state = usable(root, afterThis(store.load(root)))
  store.update(root, afterThis)
  const [before, after] = await Promise.all([fingerprints(state.accepted), fingerprints(state.waiting)])
  if (after.length === 0) {
    if (flags.json) return printJson({ root: root.text, changed: false, keys: before })
    return print(`The keys of ${root.text} are the ones that you trust. There is nothing to accept.`)
  }
  if (!flags.yes) {
    note(`${root.text} has replaced all of its keys.`)
    for (const key of before) note(`known: ${key}`)
    for (const key of after) note(`new:   ${key}`)
    await confirm('Did the issuer tell you these fingerprints? Accept the new keys?')
  }
  const seen = JSON.stringify(state.waiting)
  // An agent may have fetched others while the question was open.
  store.update(root, (now) => (JSON.stringify(now.waiting) === seen ? afterAccepting(now, Date.now()) : now))
  if (store.load(root).waiting !== undefined) throw replaced(root)
  if (flags.json) return printJson({ root: root.text, changed: true, keys: after })
  print(`Accepted the new keys of ${root.text}:`)
  for (const key of after) print(`  ${key}`)
}

async function openStore(): Promise<TrustStore> {
  const trust = await import('@static/sdk/trust')
  return new trust.TrustStore(userPlaces().trust)
}

/** The file of the keys of a root, fetched now. */
async function fetched(root: Root): Promise<Exclude<Fetched, { failed: string }>> {
  const { fetchKeys, proxyOf } = await import('@static/sdk/trust')
  const found = await withProgress(`Fetching the keys of ${root.text}`, fetchKeys(root, proxyOf(process.env)))
  if ('failed' in found) {
    throw StaticError.of(
      'unavailable',
      `The keys of ${root.text} are out of reach: ${found.failed}. Check the name and the network. If its server is not on the internet, \`static trust add\` takes --address and --ca, or its keys as a file (--keys).`,
    )
  }
  return found
}

/** What is known of the keys of a root after a fetch, unless the file was not right. */
function usable(root: Root, state: KeyState): KeyState {
  if (state.refused === undefined) return state
  throw StaticError.of(
    'unavailable',
    `The file of the keys of ${root.text} ${state.refused}. Its issuer must correct it.`,
  )
}

function find(roots: readonly ListedRoot[], text: string): ListedRoot {
  const found = roots.find(({ root }) => root.text === text.trim().toLowerCase() || root.text === text.trim())
  if (found !== undefined) return found
  const names = roots.map(({ root }) => root.text).join(', ')
  throw StaticError.of('not_found', `${text} is not trusted. ${names === '' ? 'Nothing is.' : `Trusted: ${names}.`}`)
}

/** The agents that use a root from now on; undefined: all. */
function agentsAfterAdding(listed: ListedRoot | undefined, as: string | undefined): readonly string[] | undefined {
  if (as === undefined || (listed !== undefined && listed.agents === undefined)) return undefined
  return [...new Set([...(listed?.agents ?? []), as])]
}

function agentsWithout(root: Root, agents: readonly string[] | undefined, as: string): readonly string[] {
  if (agents?.includes(as)) return agents.filter((agent) => agent !== as)
  const who = agents === undefined ? 'all agents' : agents.join(', ')
  throw StaticError.of(
    'not_found',
    `${root.text} is trusted by ${who}, not by ${as} alone. Leave out --as to remove it.`,
  )
}

async function fingerprints(set: KeySet | undefined): Promise<readonly string[]> {
  const { thumbprintOf } = await import('@static/sdk/trust')
  return (set?.keys ?? []).map(thumbprintOf)
}

function replaced({ text }: Root): StaticError {
  return StaticError.of(
    'invalid_request',
    `${text} has replaced all of its keys at once. Ask its owner, then run \`static trust accept-keys ${text}\`.`,
  )
}
