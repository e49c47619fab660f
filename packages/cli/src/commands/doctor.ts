/** `static doctor`: finds problems on this machine and explains how to fix them. */
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { type AccountSettings, readCredentials, userPlaces } from '@static/sdk/account'
import packageJson from '../../package.json' with { type: 'json' }
import { accountOf, addAccountFlags, type AccountFlags, relayOf } from '../account/account.ts'
import { clientFlag } from '../account/client-flag.ts'
import { checkAgents, checkServerData } from '../doctor/files.ts'
import { checkFilesPort } from '../doctor/files-port.ts'
import { checkCertificate, type CheckedCertificate } from '../doctor/certificate.ts'
import { type Finding, fix, ok, skipped } from '../doctor/finding.ts'
import { guestsOf, linkedRelays, withoutAccount, type WithRelay } from '../doctor/guests.ts'
import { keyAgreement } from '../doctor/key-agreement.ts'
import { checkApi, checkKey, checkPorts, checkRelay } from '../doctor/network.ts'
import { checkKnownRelay } from '../doctor/known-relay.ts'
import { checkRelayCertificate } from '../doctor/relay-certificate.ts'
import { examples } from '../terminal/examples.ts'
import { printable, print, printJson, styled } from '../terminal/output.ts'
import { withProgress } from '../terminal/progress.ts'

interface Flags extends AccountFlags {
  readonly relay?: string
}

const OLDEST_NODE = 24
const REFUSED = "not checked: the API's certificate is refused"

export function doctorCommand(): Command {
  return addAccountFlags(new Command('doctor').addOption(clientFlag('endpoint', '--relay <url>', 'relay to check')))
    .addHelpText(
      'after',
      `\nExits with 1 if something needs fixing. Lines marked "skip" were not checked.\n${examples('static doctor', 'static doctor --json')}`,
    )
    .action(doctor)
}

async function doctor(flags: Flags): Promise<void> {
  const findings = await withProgress('Checking', examine(flags))
  const ok = findings.every((finding) => finding.ok !== false)
  if (flags.json) printJson({ ok, checks: findings })
  else {
    const width = Math.max(...findings.map(({ check }) => check.length))
    for (const finding of findings) {
      print(`${markOf(finding)}  ${finding.check.padEnd(width)}  ${printable(finding.detail)}`)
    }
  }
  if (!ok) process.exitCode = 1
}

function markOf(finding: Finding): string {
  if (finding.ok === null) return styled('dim', 'skip')
  return finding.ok ? styled('green', 'ok  ') : styled('red', 'fix ')
}

async function examine(flags: Flags): Promise<Finding[]> {
  const places = userPlaces()
  const credentials = checkCredentials(places.credentials)
  const { checkStatements, checkTrust } = await import('../doctor/proofs.ts')
  const now = Date.now()
  const proofs = [checkTrust(places, now), checkStatements(places, now)]
  const files = [versions(), credentials, checkServerData(places.server), checkAgents(places.agents), ...proofs]
  // Without readable credentials, the network checks are meaningless, so report the file first.
  if (!credentials.ok) return files
  const configured = accountOf(flags)
  const linked = linkedRelays(configured)
  const guests = guestsOf(configured, flags.apiUrl)
  const named = flags.relay ?? configured.relay
  const relays = named === undefined ? linked : [{ ...configured, relay: named }, ...others(linked, named)]
  // An agent whose relay nothing names is not a guest but signed out.
  if (guests.length > 0 && relays.length > 0)
    return [...files, ...withoutAccount(guests), ...(await examineRelays(relays))]
  const { relay, findings } = await examineAccount(configured, flags)
  return [...files, ...findings, ...(await examineRelays(others(linked, relay)))]
}

function others(relays: readonly WithRelay[], endpoint: string | undefined): readonly WithRelay[] {
  return relays.filter(({ relay }) => relay !== endpoint)
}

/** The checks of relays that agents use without an account. */
async function examineRelays(relays: readonly WithRelay[]): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  for (const account of relays) {
    const nodes = await checkRelay(account.relay, account)
    const checked = await checkRelayCertificate(account.relay, account, nodes)
    const files = await checkFilesPort(account.relay, account, nodes)
    findings.push(...nodes.map(({ finding }) => finding), ...checked.findings, ...files)
    findings.push(...(await checkKnownRelay(account.relay, account)), ...keyAgreement(checked.connections))
  }
  return findings
}

/** The checks of the account, its API and its relay. */
async function examineAccount(
  configured: AccountSettings,
  flags: Flags,
): Promise<{ readonly relay: string | undefined; readonly findings: readonly Finding[] }> {
  const announced = await relayOf(configured, flags.relay).catch(() => undefined)
  const account = { ...configured, relay: announced?.endpoint, relayName: announced?.relayName }
  const { relay } = account
  // One after the other: loading the agent for the relay's check would delay any other pending answer.
  const certificate = await checkCertificate(account)
  const [key, ...api] = await checkAccount(account, certificate)
  const nodes = relay === undefined ? [] : await checkRelay(relay, account)
  const ports =
    certificate.isAccepted === false
      ? skipped('ports', REFUSED)
      : await checkPorts(account, certificate.isAccepted === true)
  const connections = certificate.connection ? [certificate.connection] : []
  if (relay === undefined) {
    const unknown = skipped('relay', 'not checked: none is configured, and the API announces none')
    return { relay, findings: [ports, ...api, certificate.finding, key, unknown, ...keyAgreement(connections)] }
  }
  const known = await checkKnownRelay(relay, account)
  const checked = await checkRelayCertificate(relay, account, nodes)
  const files = await checkFilesPort(relay, account, nodes)
  const ways = nodes.map(({ finding }) => finding)
  const agreed = keyAgreement([...connections, ...checked.connections])
  const ofRelay = [...ways, ...checked.findings, ...files, ...known, ...agreed]
  return { relay, findings: [ports, ...api, certificate.finding, key, ...ofRelay] }
}

/** The key, the API and the clock. If the certificate is refused, all other checks would only repeat that. */
async function checkAccount(
  account: AccountSettings,
  { isAccepted, clock }: CheckedCertificate,
): Promise<[key: Finding, ...api: Finding[]]> {
  if (isAccepted !== false) {
    const [key, api] = await Promise.all([checkKey(account), checkApi(account)])
    return [key, ...api]
  }
  return [skipped('API key', REFUSED), skipped('API', REFUSED), clock ?? skipped('clock', REFUSED)]
}

function versions(): Finding {
  const found = `static ${packageJson.version}, Node ${process.versions.node}`
  if (Number(process.versions.node.split('.')[0]) >= OLDEST_NODE) return ok('versions', found)
  return fix('versions', `${found} is too old. Install Node ${OLDEST_NODE} or newer.`)
}

function checkCredentials(path: string): Finding {
  try {
    const { api_key: key } = readCredentials(path)
    return ok('credentials', key === undefined ? `none in ${path}` : `${path}: accessible by you only`)
  } catch (error) {
    return fix('credentials', StaticError.from(error).message)
  }
}
