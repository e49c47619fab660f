/** `static channel approvals` and `static channel decide`: what this agent is asked to approve, and its answer. */
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import type { ApprovalSummary } from '../../agent/approval-actions.ts'
import { slotsOf } from '../../agent/key.ts'
import { addAgentFlags, type AgentFlags, type OpenAgent, withAgent } from '../../agent/open.ts'
import { agentPlace } from '../../agent/place.ts'
import { askSecret, canAsk, confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { facts, note, print, printable, printJson, shortTime, table } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument } from './arguments.ts'
import { decisionWords } from './request-approval.ts'

interface DecideFlags extends AgentFlags {
  readonly yes?: boolean
}

export function approvalsCommand(): Command {
  return addAgentFlags(
    new Command('approvals')
      .description('list what this agent may approve, and what it has asked for')
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel approvals acme/ops/deploys'))
    .action(async (name: string, flags: AgentFlags) => {
      const approvals = await withAgent(flags, { share: false }, (agent) =>
        withProgress('Reading approvals', allOf(agent, name)),
      )
      if (flags.json) return printJson({ channel: name, approvals })
      if (approvals.length === 0) return note('there is nothing to approve.')
      const rows = approvals.map(({ id, state, used, decisions, need, deadline, asker, title }) => [
        id,
        used ? 'used' : state,
        `${decisions.filter(({ choice }) => choice === 'approve').length} of ${need}`,
        shortTime(deadline),
        asker.name,
        title,
      ])
      print(table(['APPROVAL', 'STATE', 'APPROVED', 'DEADLINE', 'ASKER', "ASKER'S TITLE"], rows))
    })
}

export function decideCommand(): Command {
  return addAgentFlags(
    new Command('decide')
      .description('approve or deny an action, for good, signed with the key of this agent')
      .addArgument(channelArgument())
      .addArgument(new Argument('<id>', 'the id of the approval, as `approvals` shows it'))
      .addArgument(new Argument('<choice>', 'your decision').choices(['approve', 'deny']))
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      `
Shows the action itself, then asks. Any process of your user can decide like this. If a passphrase alone opens the agent,
it is asked for once more on a terminal, and the record says that the decision was attended.
${examples('static channel decide acme/ops/deploys 3f1c…9ab2 approve')}`,
    )
    .action(async (name: string, id: string, choice: 'approve' | 'deny', flags: DecideFlags) => {
      const attended = await withAgent(flags, { share: false }, async (agent) => {
        await withProgress('Reading approvals', agent.call('approvals', name))
        const approval = await agent.call('approval', name, id)
        // Not as a note, which could change it. Every line of others is escaped.
        if (!flags.json || !flags.yes) process.stderr.write(`${shown(approval, columns())}\n`)
        if (!flags.yes) await confirm(`${choice === 'approve' ? 'Approve' : 'Deny'} exactly this action?`)
        const isAttended = await typedPassphrase(flags)
        await withProgress('Deciding', agent.call('decide', name, id, choice, isAttended))
        return isAttended
      })
      if (flags.json) printJson({ channel: name, id, choice, attended })
      else print(`${choice === 'approve' ? 'Approved' : 'Denied'} ${id}.`)
    })
}

async function allOf(agent: OpenAgent, name: string): Promise<readonly ApprovalSummary[]> {
  const approvals: ApprovalSummary[] = []
  // One at a time: all of them do not fit into one answer of the socket.
  for (const id of await agent.call('approvals', name)) {
    const found = await agent.call('approval', name, id).catch((error: unknown) => {
      // Its deadline may have come meanwhile.
      if (error instanceof StaticError && error.code === 'not_found') return undefined
      throw error
    })
    if (found) approvals.push(found)
  }
  return approvals
}

/**
 * An approval for the one who decides: first what is executed, then what the asker says about it. Nothing of others
 * begins a row of the terminal: a long line that wraps could look like a line of this card.
 */
function shown(approval: ApprovalSummary, width: number): string {
  const { asker, need, from, deadline, state, decisions, title, text, risk, action } = approval
  const bytes = Buffer.from(action, 'base64')
  const isReadable = isText(bytes)
  const lines = isReadable ? bytes.toString().split('\n') : [bytes.toString('hex')]
  const words = [
    ['title', title],
    ['risk', risk],
    ...text.split('\n').map((line, at) => [at === 0 ? 'text' : '', line]),
  ] as const
  return [
    facts([
      ...rowsOf(asker.name, width - FACT_COLUMNS).map((row, at) => [at === 0 ? 'asker' : '', row] as const),
      ['fingerprint', asker.fingerprint],
      ['needs', `${need} of ${from.length}`],
      ['deadline', deadline],
      ['state', state],
    ]),
    ...decisions.flatMap((decision) =>
      rowsOf(decisionWords(decision), width - 2).map((row, at) => (at === 0 ? row : `  ${row}`)),
    ),
    `The action, ${bytes.length} bytes${isReadable ? '' : ' in hexadecimal'}, which alone is executed:`,
    ...lines.flatMap((line) => rowsOf(line, width - 4).map((row, at) => `  ${at === 0 ? '|' : '+'} ${row}`)),
    "The asker's words, which nothing ties to the action:",
    ...words
      .filter(([, value]) => value !== '')
      .flatMap(([label, value]) =>
        rowsOf(value, width - 10).map((row, at) => `  > ${(at === 0 ? label : '').padEnd(5)} ${row}`),
      ),
  ].join('\n')
}

const FACT_COLUMNS = 'fingerprint  '.length

/** The columns of the terminal; elsewhere nothing wraps. */
function columns(): number {
  return process.stderr.isTTY ? Math.max(process.stderr.columns || 80, 40) : Infinity
}

/** Text of others, printable, in rows of a terminal. */
function rowsOf(text: string, width: number): readonly string[] {
  const rows: string[] = []
  let [row, left] = ['', width]
  for (const sign of printable(text)) {
    // No sign is wider than two columns.
    const taken = sign <= '~' ? 1 : 2
    if (taken > left) {
      rows.push(row)
      row = ''
      left = width
    }
    row += sign
    left -= taken
  }
  return [...rows, row]
}

function isText(bytes: Buffer): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return true
  } catch {
    return false
  }
}

/**
 * Asks for the passphrase of the agent, if nothing else opens it, and checks it.
 *
 * @throws {StaticError} `store_key_wrong`
 */
async function typedPassphrase(flags: DecideFlags): Promise<boolean> {
  const { dataDir, identity } = agentPlace(flags)
  const slots = await slotsOf(dataDir)
  const isLocked = slots.length > 0 && slots.every(({ type }) => type === 'passphrase')
  if (!isLocked || flags.yes || !canAsk()) return false
  const passphrase = await askSecret(`Passphrase of ${printable(identity)}, for this decision:`)
  const { checkKeySlot } = await import('@static/sdk/account')
  await checkKeySlot(dataDir, { type: 'passphrase', passphrase })
  return true
}
