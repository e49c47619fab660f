/** `static channel request-approval`: asks people, and ends with 0 only if enough of them have approved. */
import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { Command } from 'commander'
import { createFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import type { ApprovalProgress, DecisionSummary } from '../../agent/approval-actions.ts'
import { addAgentFlags, type AgentFlags, type OpenAgent, withAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import type { ExitCode } from '../../terminal/exit-codes.ts'
import { note, plainJson, print } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { readShort } from '../../terminal/short-file.ts'
import { channelArgument, seconds, wholeNumber } from './arguments.ts'

interface Flags extends AgentFlags {
  readonly from: string
  readonly need: number
  readonly action: string
  readonly timeout: number
  readonly title?: string
  readonly text?: string
  readonly risk?: string
  readonly out?: string
}

type End = NonNullable<ApprovalProgress['over']>

const TIMEOUT = 900
const MOST_ACTION_BYTES = 32_768
/** How long one question about it waits. */
const WAIT_S = 20
const CODES: Readonly<Record<End['decision'], ExitCode>> = { approved: 0, denied: 10, expired: 11 }

export function requestApprovalCommand(): Command {
  return addAgentFlags(
    new Command('request-approval')
      .description('ask members to approve an action, and wait; exits with 0 only if it is approved')
      .addArgument(channelArgument())
      .requiredOption('--from <members>', 'who may decide: identities, fingerprints or rules, separated by commas')
      .requiredOption('--need <count>', 'how many of them must approve', wholeNumber)
      .requiredOption('--action <file>', 'what you will execute: they approve exactly these bytes, at most 32 KiB')
      .option('--timeout <seconds>', 'how long they have, at most a week', seconds, TIMEOUT)
      .option('--title <text>', 'what it is about, in a line (default: the name of the file)')
      .option('--text <text>', 'what people should know')
      .option('--risk <text>', 'how bad it could be')
      .option('--out <file>', 'write the signed record here, for `static approval check`'),
  )
    .addHelpText(
      'after',
      `
Exits with 0 if it is approved, 10 if it is denied, and 11 if the time is over. If it is approved, the approved bytes go to
stdout unless that is a terminal: execute these, since the file may have changed. One approval permits one execution; a
command that was killed after it needs a new one. Members decide with \`static channel decide\`; language models cannot.
${examples(
  'static channel request-approval acme/ops/deploys --from ada,ben,cy --need 2 --action plan.json > approved.json',
)}`,
    )
    .action(async (name: string, flags: Flags) => {
      process.exitCode = CODES[await requestApproval(name, flags)]
    })
}

async function requestApproval(name: string, flags: Flags): Promise<End['decision']> {
  const { from, need, timeout, text = '', risk = '', out, title = basename(flags.action) } = flags
  if (out !== undefined && existsSync(out))
    throw StaticError.of('invalid_request', `${out} exists. Pass --out with the path of a new file.`)
  const action = (await readShort(flags.action, MOST_ACTION_BYTES)).toString('base64')
  const deciders = from.split(',').map((word) => word.trim())
  // Known as soon as it is asked: if the process that has the agent open ends, another one goes on.
  let id: string | undefined
  const end = await withAgent(flags, { share: true }, async (agent) => {
    id ??= await withProgress(
      'Asking',
      agent.call('startApproval', name, title, text, risk, action, deciders, need, timeout),
    )
    return await follow(agent, name, id, need)
  })
  if (out !== undefined && !createFile(out, end.record, 0o600)) note(`${out} exists: the record was not written.`)
  if (flags.json) await written(`${plainJson({ channel: name, id, ...end })}\n`)
  else if (end.action === undefined || process.stdout.isTTY) print(endWords(end))
  else await written(Buffer.from(end.action, 'base64'))
  return end.decision
}

/** Half an action must not look like the approved one to whoever executes it. */
async function written(output: string | Uint8Array): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  process.stdout.write(output, (error) => {
    if (!error) return resolve()
    const text = `The result was not written to stdout, or only a part of it: ${error.message}. Execute nothing. If it was approved, the approval is used: ask again.`
    reject(StaticError.of('invalid_request', text, { cause: error }))
  })
  await promise
}

async function follow(agent: OpenAgent, name: string, id: string, need: number): Promise<End> {
  note(`asked for approval ${id}; waiting.`)
  for (let known = 0; ;) {
    const { decisions, over } = await withProgress(
      `Waiting for ${need} to approve`,
      agent.call('followApproval', name, id, known, WAIT_S),
    )
    for (const decision of decisions.slice(known)) note(decisionWords(decision))
    known = decisions.length
    if (over) return over
  }
}

function endWords({ decision, by }: End): string {
  const names = by.map(({ member }) => member.name).join(', ')
  return names === '' ? `It is ${decision}.` : `It is ${decision} by ${names}.`
}

/** A decision in words: `ada approved at 2026-11-19 12:00:00 (a passphrase was typed)`. */
export function decisionWords({ member, choice, time, attended }: DecisionSummary): string {
  const how = attended ? 'says that a passphrase was typed' : 'unattended'
  return `${member.name} has ${choice === 'approve' ? 'approved' : 'denied'} it (${time}, ${how}).`
}
