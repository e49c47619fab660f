/** `static domain`: says which agents a domain runs. Needs no account, agent or relay. */
import { resolve } from 'node:path'
import { Argument, Command, InvalidArgumentError } from 'commander'
import { replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { userPlaces } from '@static/sdk/account'
import type { DomainStore } from '@static/sdk/trust'
import { ownId } from '../agent/agent-id.ts'
import { agentsIn } from '../agent/identity.ts'
import { addKeyFlags, type KeyFlags } from '../agent/key.ts'
import { addPlaceFlags, agentPlace, checkExists, type PlaceFlags } from '../agent/place.ts'
import { examples } from '../terminal/examples.ts'
import { commandLine, note, print, printJson, shellWord, shortTime, table } from '../terminal/output.ts'
import {
  addFileFlag,
  checkDomain,
  checkTarget,
  FILE,
  type FileFlags,
  publish,
  published,
  storeOf,
} from './domain/file.ts'
import { rotateCommand } from './domain/rotate.ts'
import { addFetchFlags, type FetchFlags } from './trust.ts'

interface Flags {
  readonly json?: boolean
}

interface SignFlags extends Flags, PlaceFlags, KeyFlags {
  readonly domain?: string
  readonly agent?: string
  readonly out?: string
  readonly name?: string
  readonly days: number
}

interface RevokeFlags extends FileFlags {
  readonly domain?: string
  readonly all?: boolean
}

const DAYS = 30
const MOST_DAYS = 90

export function domainCommand(): Command {
  return new Command('domain')
    .addCommand(initCommand())
    .addCommand(checkCommand())
    .addCommand(listCommand())
    .addCommand(signCommand())
    .addCommand(revokeCommand())
    .addCommand(rotateCommand())
    .addCommand(renewCommand())
    .addHelpText(
      'after',
      `
A statement of a domain lets others check who runs an agent. They trust the domain with \`static trust add acme.example\`
and fetch its keys from https://acme.example/.well-known/${FILE}.
${examples('static domain init acme.example', 'static domain check acme.example', 'static domain sign --as deployer')}`,
    )
}

function initCommand(): Command {
  return addFileFlag(
    new Command('init')
      .description('make the key of a domain on this machine, and the file to publish')
      .addArgument(new Argument('<domain>', 'a domain that you control')),
  )
    .addHelpText('after', examples('static domain init acme.example'))
    .action(init)
}

function checkCommand(): Command {
  return addFetchFlags(
    new Command('check')
      .description('fetch the file of a domain as a stranger would, and compare it with the key on this machine')
      .addArgument(new Argument('<domain>', 'the domain')),
  )
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static domain check acme.example'))
    .action(check)
}

function listCommand(): Command {
  return new Command('list')
    .description('list the domains whose keys are on this machine, and the statements signed with them')
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static domain list'))
    .action(list)
}

function signCommand(): Command {
  return addPlaceFlags(
    addKeyFlags(
      new Command('sign')
        .description('sign a statement about an agent, and install it if the agent is on this machine')
        .option('--domain <domain>', 'the domain, if the keys of several are on this machine')
        .option('--agent <fingerprint>', 'an agent on another machine; requires --name and --out')
        .option('--name <name>', "what the domain calls the agent (default: the agent's identity)")
        .option('--out <file>', 'write the statement to this file, for `static agent add-proof`')
        .option('--days <days>', `how long it is valid, at most ${MOST_DAYS} days`, daysOf, DAYS),
    ),
  )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examples(
        'static domain sign --as deployer',
        'static domain sign --agent "77b1 0d4e …" --name deployer --out deployer.jwt',
      ),
    )
    .action(sign)
}

function revokeCommand(): Command {
  return addFileFlag(
    new Command('revoke')
      .description('revoke a statement, and write the file to publish again')
      .addArgument(new Argument('[id]', 'of the statement, from `static domain list`'))
      .option('--all', 'revoke all statements that were signed until now')
      .option('--domain <domain>', 'the domain, if the keys of several are on this machine'),
  )
    .addHelpText(
      'after',
      `
It counts once the file is uploaded: others see it within an hour, or within a day if they cannot reach it.
${examples('static domain revoke 3q2-7wAAAAAAAAAAAAAAAA', 'static domain revoke --all')}`,
    )
    .action(revoke)
}

function renewCommand(): Command {
  return new Command('renew')
    .description('renew the statements of agents on this machine that end within a week')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Running agents do this themselves where the key of the domain is on the same machine.
${examples('static domain renew')}`,
    )
    .action(renew)
}

function daysOf(text: string): number {
  if (/^\d{1,2}$/.test(text) && Number(text) >= 1 && Number(text) <= MOST_DAYS) return Number(text)
  throw new InvalidArgumentError(`Expected a number of days from 1 to ${MOST_DAYS}.`)
}

async function init(given: string, flags: FileFlags): Promise<void> {
  const domain = await checkDomain(given)
  const store = await storeOf(domain)
  const file = checkTarget(flags.out, domain)
  const created = store.init()
  const { keys, address } = await publish(store, file)
  if (flags.json) return printJson({ domain, created, keys, file, publish_at: address })
  print(created ? `Made the key of ${domain}: ${keys.join(', ')}` : `The key of ${domain} exists: ${keys.join(', ')}`)
  print(`Upload ${file} to ${address}, then run \`${commandLine(`domain check ${domain}`)}\`.`)
  if (created) note(`back the key up: ${userPlaces().domains} has the only copy.`)
}

async function check(given: string, flags: Flags & FetchFlags): Promise<void> {
  const { thumbprintOf } = await import('@static/sdk/trust')
  const domain = await checkDomain(given)
  const { address, found } = await published(domain, flags)
  const keys = found.keys.map(thumbprintOf)
  const store = await storeOf(domain)
  const own = store.hasKey ? store.keySet(Date.now()) : undefined
  const missing =
    own === undefined
      ? []
      : [
          ...own.keys.filter((key) => !keys.includes(thumbprintOf(key))).map(thumbprintOf),
          ...own.revoked.filter((each) => !found.revoked.includes(each)).map((each) => `revocation ${each}`),
          ...(own.notBefore > found.notBefore ? ['the revocation of all earlier statements'] : []),
        ]
  if (missing.length > 0) {
    throw StaticError.of(
      'invalid_request',
      `${address} is not what this machine has signed: it lacks ${missing.join(', ')}. Upload the file that \`static domain init ${domain}\` writes.`,
    )
  }
  if (flags.json) return printJson({ domain, address, keys, revoked: found.revoked.length, own: own !== undefined })
  print(`${address} is right. Fingerprints of its keys:`)
  for (const key of keys) print(`  ${key}`)
  if (own === undefined) note(`the key of ${domain} is not on this machine, so nothing was compared.`)
}

async function list(flags: Flags): Promise<void> {
  const stores = await allStores()
  const now = Date.now()
  const domains = stores.map((store) => ({
    domain: store.domain,
    statements: store.statements(now).map(({ id, subject, agentId, expiresAt, isRevoked }) => ({
      id,
      name: subject,
      agent_id: agentId,
      until: new Date(expiresAt * 1000).toISOString(),
      revoked: isRevoked,
    })),
  }))
  if (flags.json) return printJson({ domains })
  if (domains.length === 0) return note(`there is no key of a domain in ${userPlaces().domains}.`)
  const rows = domains.flatMap(({ domain, statements }) =>
    statements.length === 0
      ? [[domain, '', '', '', '']]
      : statements.map(({ id, name, agent_id: agentId, until, revoked }) => [
          domain,
          id,
          name,
          `${agentId.slice(0, 8)}…`,
          revoked ? 'revoked' : shortTime(until),
        ]),
  )
  print(table(['DOMAIN', 'ID', 'NAME', 'AGENT', 'UNTIL'], rows))
}

async function sign(flags: SignFlags): Promise<void> {
  const { holdStatement, isPlain, readStatement } = await import('@static/sdk/trust')
  const store = await chosenStore(flags.domain)
  const about = flags.agent === undefined ? await ownAgent(flags) : await otherAgent(flags, flags.agent)
  if (!isPlain(about.subject)) {
    throw StaticError.of(
      'invalid_request',
      `${JSON.stringify(about.subject)} cannot be a name in a statement. Pass --name with letters, digits and . _ - @ / alone.`,
    )
  }
  const jwt = await store.sign(about, flags.days, Date.now())
  if (flags.out !== undefined) replaceFile(resolve(flags.out), `${jwt}\n`, 0o600)
  else if (about.dataDir !== undefined) holdStatement(about.dataDir, jwt)
  const { id = '', expiresAt = 0 } = readStatement(jwt) ?? {}
  const until = new Date(expiresAt * 1000).toISOString()
  const { subject, agentId } = about
  if (flags.json) {
    return printJson({ domain: store.domain, id, name: subject, agent_id: agentId, until, file: flags.out ?? null })
  }
  print(`Signed: ${agentId.slice(0, 8)}… is ${subject} of ${store.domain}, until ${shortTime(until)}. Its id is ${id}.`)
  if (flags.out === undefined) {
    const as = flags.as === undefined ? '' : ` --as ${shellWord(flags.as)}`
    const join = commandLine(`channel join CHANNEL${as} --show ${store.domain}`)
    note(`the agent shows it only where you say so, as with \`${join}\`.`)
  } else {
    const add = commandLine(`agent add-proof ${shellWord(flags.out)} --as IDENTITY`)
    note(`copy ${flags.out} to the agent's machine, and there run \`${add}\`.`)
  }
}

async function revoke(id: string | undefined, flags: RevokeFlags): Promise<void> {
  if ((id === undefined) !== (flags.all === true)) {
    throw StaticError.of('invalid_request', 'Pass either the id of a statement or --all.')
  }
  const store = await chosenStore(flags.domain)
  const file = checkTarget(flags.out, store.domain)
  if (id === undefined) store.revokeAll(Date.now())
  else store.revoke(id, Date.now())
  const { address } = await publish(store, file)
  const what = id === undefined ? 'all statements' : `statement ${id}`
  if (flags.json) return printJson({ domain: store.domain, revoked: id ?? 'all', file, publish_at: address })
  print(`Revoked ${what} of ${store.domain}. It counts when you have uploaded ${file} to ${address}.`)
}

async function renew(flags: Flags): Promise<void> {
  const { heldStatements, renewed, DomainStore } = await import('@static/sdk/trust')
  const { agents, domains } = userPlaces()
  const now = Date.now()
  const renewals: {
    readonly agent: string
    readonly domain: string
    readonly until: string
    readonly renewed: boolean
  }[] = []
  for (const { identity, directory } of agentsIn(agents)) {
    for (const held of heldStatements(directory)) {
      if (!new DomainStore(domains, held.domain).hasKey) continue
      const after = await renewed(directory, held, domains, now) // oxlint-disable-line eslint/no-await-in-loop -- each writes the same file
      const end = after === held.jwt ? held : heldStatements(directory).find(({ jwt }) => jwt === after)
      const until = new Date((end ?? held).expiresAt * 1000).toISOString()
      renewals.push({ agent: identity ?? directory, domain: held.domain, until, renewed: after !== held.jwt })
    }
  }
  for (const store of await allStores()) store.sweep(now)
  if (flags.json) return printJson({ statements: renewals })
  if (renewals.length === 0) return note('no agent on this machine has a statement of a domain whose key is here.')
  const rows = renewals.map(({ agent, domain, until, renewed: isNew }) => [
    agent,
    domain,
    shortTime(until),
    isNew ? 'renewed' : Date.parse(until) <= now ? 'ended: sign a new one' : 'not due',
  ])
  print(table(['AGENT', 'DOMAIN', 'UNTIL', 'RESULT'], rows))
}

async function allStores(): Promise<readonly DomainStore[]> {
  const { domainsIn } = await import('@static/sdk/trust')
  return await Promise.all(domainsIn(userPlaces().domains).map(storeOf))
}

/** The named domain, or the only one whose key is here. */
async function chosenStore(domain: string | undefined): Promise<DomainStore> {
  if (domain !== undefined) return await storeOf(await checkDomain(domain))
  const [first, ...more] = await allStores()
  if (first === undefined) {
    throw StaticError.of(
      'not_found',
      'There is no key of a domain on this machine. Make one with `static domain init DOMAIN`.',
    )
  }
  if (more.length === 0) return first
  const names = [first, ...more].map((store) => store.domain).join(', ')
  throw StaticError.of(
    'invalid_request',
    `The keys of several domains are on this machine: ${names}. Choose one with --domain.`,
  )
}

/** The agent that a statement is about. */
interface About {
  readonly agentId: string
  readonly subject: string
  readonly dataDir?: string
}

async function ownAgent(flags: SignFlags): Promise<About> {
  await checkExists(flags)
  const { identity, dataDir } = agentPlace(flags)
  const { agent_id: agentId } = await ownId(dataDir, flags)
  return { agentId, subject: flags.name ?? identity, dataDir }
}

async function otherAgent({ as, name, out }: SignFlags, fingerprint: string): Promise<About> {
  const { parseAgentId } = await import('@static/sdk/trust')
  if (as !== undefined)
    throw StaticError.of('invalid_request', 'Both --as and --agent are given. Pass only one of them.')
  if (name === undefined || out === undefined) {
    throw StaticError.of('invalid_request', 'For an agent on another machine, pass --name and --out as well.')
  }
  return { agentId: parseAgentId(fingerprint), subject: name }
}
