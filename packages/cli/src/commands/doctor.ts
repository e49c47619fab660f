/** `static doctor`: finds problems on this machine and says how to fix them. */
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { readCredentials, userPlaces } from '@static/sdk/account'
import packageJson from '../../package.json' with { type: 'json' }
import { accountOf, addAccountFlags, type AccountFlags, defaultRelay } from '../account/account.ts'
import { checkAgents, checkServerData } from '../doctor/files.ts'
import { type Finding, fix, ok } from '../doctor/finding.ts'
import { checkApi, checkCertificate, checkKey, checkPorts, checkRelay } from '../doctor/network.ts'
import { checkRelayCertificate } from '../doctor/relay-certificate.ts'
import { examples } from '../terminal/examples.ts'
import { printable, print, printJson, styled } from '../terminal/output.ts'
import { withProgress } from '../terminal/progress.ts'

interface Flags extends AccountFlags {
  readonly relay?: string
}

const OLDEST_NODE = 24

export function doctorCommand(): Command {
  return addAccountFlags(
    new Command('doctor').option('--relay <url>', 'relay to check (default: STATIC_RELAY, then the saved one)'),
  )
    .addHelpText(
      'after',
      `\nExits with 1 if something needs fixing.\n${examples('static doctor', 'static doctor --json')}`,
    )
    .action(doctor)
}

async function doctor(flags: Flags): Promise<void> {
  const findings = await withProgress('Checking', examine(flags))
  const ok = findings.every((finding) => finding.ok)
  if (flags.json) printJson({ ok, checks: findings })
  else {
    const width = Math.max(...findings.map(({ check }) => check.length))
    for (const finding of findings) {
      const mark = finding.ok ? styled('green', 'ok  ') : styled('red', 'fix ')
      print(`${mark}  ${finding.check.padEnd(width)}  ${printable(finding.detail)}`)
    }
  }
  if (!ok) process.exitCode = 1
}

async function examine(flags: Flags): Promise<Finding[]> {
  const places = userPlaces()
  const credentials = checkCredentials(places.credentials)
  const files = [versions(), credentials, checkServerData(places.server), checkAgents(places.agents)]
  // Without readable credentials the network checks mean nothing: report the file first.
  if (!credentials.ok) return files
  const account = accountOf(flags)
  const relay = flags.relay ?? account.relay ?? defaultRelay(account.apiUrl)
  const [api, certificate, key, way] = await Promise.all([
    checkApi(account),
    checkCertificate(account),
    checkKey(account),
    checkRelay(relay, account),
  ])
  const reachable = api[0]?.ok === true
  const ports = await checkPorts(relay, account.apiUrl, reachable)
  return [...files, ports, ...api, certificate, key, way, ...(await checkRelayCertificate(relay, account))]
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
