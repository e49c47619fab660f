/** `static agent accept-relay`: accepts a relay that was set up again, in place of the one the agent knows. */
import { Argument, Command, InvalidArgumentError } from 'commander'
import { type ErrorDetails, StaticError } from '@static/protocol'
import type { Channel } from '@static/sdk'
import { HostClient } from '../../agent/host-client.ts'
import { addAgentFlags, type AgentFlags, type AgentOptions, clientOptionsOf, connecting } from '../../agent/open.ts'
import { agentPlace } from '../../agent/place.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { commandLine, note, print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'

interface Flags extends AgentFlags {
  readonly yes?: boolean
}

/** The relay that the agent knows and the one that answers. */
type Change = NonNullable<ErrorDetails['relay']>

/** How long to wait for the new relay to report which channels it lacks. */
const LOST_TIMEOUT_MS = 10_000

export function acceptRelayCommand(): Command {
  return addAgentFlags(
    new Command('accept-relay')
      .description('accept a relay that was set up again, in place of the one the agent knows')
      .addArgument(new Argument('[id]', 'accept only the relay with this id').argParser(relayId))
      .option('--yes', 'skip the confirmation prompt; requires the id'),
  )
    .addHelpText(
      'after',
      `
For the error relay_changed. A relay that lost its database comes back with another id, without its channels. So does a
relay that someone else has put in its place: ask the operator for the id (\`static relay\` and \`static up\` log it when
they start). The channels of the old relay end; messages that the agent has received stay readable.
${examples('static agent accept-relay --as billing')}`,
    )
    .action(acceptRelay)
}

async function acceptRelay(wanted: string | undefined, flags: Flags): Promise<void> {
  if (flags.yes && wanted === undefined) {
    throw StaticError.of(
      'invalid_request',
      'Without a prompt, the id of the relay is required: `static agent accept-relay ID --yes`. The error relay_changed names it.',
    )
  }
  const { identity, dataDir } = agentPlace(flags)
  const { listKeySlots, readAgentIdentity } = await import('@static/sdk')
  // There may be no agent, and this must not create one.
  listKeySlots(dataDir)
  await checkStopped(identity, dataDir)
  const options = await clientOptionsOf(flags)
  const { channels } = await readAgentIdentity(dataDir, options.key)
  const change = await withProgress(connecting(options), changeOf(options))
  if (change === undefined) {
    if (flags.json) return printJson({ changed: false })
    return print('The relay is the one this agent already knows. There is nothing to accept.')
  }
  if (wanted !== undefined && wanted !== change.answering) {
    throw StaticError.of('relay_changed', `Relay ${change.answering} answers, not ${wanted}. Nothing was changed.`)
  }
  if (!flags.yes) await ask(change, channels)
  const lost = await withProgress('Accepting the relay', lostWith(options, change, channels))
  if (flags.json) return printJson({ changed: true, ...change, channels_lost: lost })
  print(`Accepted relay ${change.answering}.`)
  if (lost.length === 0) return
  print(`Lost with the old relay: ${lost.join(', ')}.`)
  const listen = commandLine(`channel listen ${lost[0]}`)
  note(`messages that this agent had received stay readable, for example with \`${listen}\`.`)
}

/** A process that has the agent open would not notice the change. */
async function checkStopped(identity: string, dataDir: string): Promise<void> {
  const held = await HostClient.connect(dataDir)
  held?.close()
  if (held)
    throw StaticError.of(
      'store_locked',
      `Agent ${identity} is running. Stop it, accept the relay, then start it again.`,
    )
}

/** Connects without accepting anything; undefined if the relay is the known one. */
async function changeOf(options: AgentOptions): Promise<Change | undefined> {
  const { StaticClient } = await import('@static/sdk')
  try {
    await (await StaticClient.connect(options)).close()
    return undefined
  } catch (error) {
    const change = error instanceof StaticError && error.code === 'relay_changed' ? error.details.relay : undefined
    if (change === undefined) throw error
    return change
  }
}

async function ask({ name, known, answering }: Change, channels: readonly string[]): Promise<void> {
  note(`the relay at ${name} has changed.`)
  note(`known:     ${known}`)
  note(`answering: ${answering}`)
  if (channels.length > 0)
    note(`channels of this agent, which are lost unless the new relay has them: ${channels.join(', ')}`)
  await confirm('Did the operator tell you the id of the answering relay? Accept it?')
}

/** Accepts only the relay that was shown; resolves to the names of the channels it lacks. */
async function lostWith(
  options: AgentOptions,
  change: Change,
  channels: readonly string[],
): Promise<readonly string[]> {
  const { StaticClient } = await import('@static/sdk')
  const client = await StaticClient.connect({ ...options, acceptRelay: change.answering })
  try {
    const signal = AbortSignal.timeout(LOST_TIMEOUT_MS)
    const works = async (channel: Channel): Promise<string | undefined> => {
      try {
        await channel.catchUp({ signal })
        return channel.name
      } catch (error) {
        // Only an answer from the relay ends a channel.
        return signal.aborted || StaticError.from(error).code === 'queue_full' ? channel.name : undefined
      }
    }
    const kept = await Promise.all(client.channels().map(works))
    return channels.filter((name) => !kept.includes(name))
  } finally {
    await client.close()
  }
}

function relayId(text: string): string {
  const digits = text.replaceAll(/[\s:]/g, '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(digits)) return digits
  throw new InvalidArgumentError('Expected the id of a relay: 64 hexadecimal digits.')
}
