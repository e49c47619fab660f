/** `static agent add-proof`: installs the statement of a domain, which was signed on another machine. */
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import { ownId } from '../../agent/agent-id.ts'
import { addKeyFlags, type KeyFlags } from '../../agent/key.ts'
import { addPlaceFlags, agentPlace, checkExists, type PlaceFlags } from '../../agent/place.ts'
import { examples } from '../../terminal/examples.ts'
import { print, printJson, shortTime } from '../../terminal/output.ts'
import { readText } from '../../server/input-files.ts'

interface Flags extends PlaceFlags, KeyFlags {
  readonly json?: boolean
}

export function addProofCommand(): Command {
  return addPlaceFlags(
    addKeyFlags(
      new Command('add-proof')
        .description('install the statement of a domain about this agent')
        .addArgument(new Argument('<file>', 'from `static domain sign --agent FINGERPRINT --out FILE`')),
    ),
  )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
The agent shows it in channels that it joins or creates with \`--show DOMAIN\`, and nowhere else. It replaces an earlier
statement of the same domain.
${examples('static agent add-proof deployer.jwt --as deployer')}`,
    )
    .action(addProof)
}

async function addProof(file: string, flags: Flags): Promise<void> {
  const { holdStatement, isStatement, readStatement } = await import('@static/sdk/trust')
  const { identity, dataDir } = agentPlace(flags)
  await checkExists(flags)
  const jwt = (await readText(file)).trim()
  const statement = isStatement(jwt) ? readStatement(jwt) : undefined
  if (statement === undefined) {
    throw StaticError.of(
      'invalid_request',
      `${file} is not the statement of a domain. Get one from \`static domain sign\`. Tokens are made for one channel each, so they cannot be installed.`,
    )
  }
  const { agent_id: own, fingerprint } = await ownId(dataDir, flags)
  if (statement.agentId !== own) {
    throw StaticError.of(
      'invalid_request',
      `${file} is about another agent, ${statement.agentId.slice(0, 8)}…. Have it signed for this one: --agent "${fingerprint}".`,
    )
  }
  const until = new Date(statement.expiresAt * 1000).toISOString()
  if (statement.expiresAt * 1000 <= Date.now()) {
    throw StaticError.of('invalid_request', `${file} ended on ${shortTime(until)}. Have a new one signed.`)
  }
  holdStatement(dataDir, jwt)
  const { domain, subject, id } = statement
  if (flags.json) return printJson({ identity, domain, subject, id, until })
  print(`Installed: ${domain} says that ${identity} is its ${subject}, until ${shortTime(until)}.`)
}
