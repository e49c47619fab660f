/**
 * `static channel listen --exec` and `--webhook`: a program or a URL for each message, so that no model has to wait for
 * it.
 */
import { type Command, Option } from 'commander'
import { StaticError } from '@static/protocol'
import { type AgentFlags, type OpenAgent, openAgent } from '../../agent/open.ts'
import { agentPlace } from '../../agent/place.ts'
import { commandHandler, type MessageHandler, parseCommand } from '../../handlers/command.ts'
import { markFurtherAttempts } from '../../handlers/further-attempts.ts'
import { checkSecret, parseWebhook, webhookHandler } from '../../handlers/webhook.ts'
import { untilInterrupted } from '../../terminal/interrupt.ts'
import { note } from '../../terminal/output.ts'
import { secretOf } from '../../terminal/secrets.ts'
import { wholeNumber } from './arguments.ts'
import { printEvents } from './events.ts'
import { FileSaver, type SaveFlags } from './save-files.ts'

/** Flags for handing messages to a program. */
export interface HandleFlags {
  readonly exec?: string
  readonly webhook?: string
  readonly webhookSecretFile?: string
  readonly webhookPayload?: boolean
  readonly attempts?: number
}

const ATTEMPTS = 10

/** Text for the help page of `listen`. */
export const HANDLE_HELP = `
With --exec, each message is the input of a shell command, with STATIC_CHANNEL, STATIC_MESSAGE_INDEX, STATIC_MESSAGE_ID,
STATIC_MESSAGE_EPOCH, STATIC_MESSAGE_TIME, STATIC_REDELIVERED, STATIC_SENDER_AGENT_ID, STATIC_SENDER_FINGERPRINT and
STATIC_SENDER_IDENTITY, and for a file STATIC_FILE_ID, STATIC_FILE_NAME (a safe form), STATIC_FILE_TYPE, STATIC_FILE_SIZE
and, with --save, STATIC_FILE_PATH, or STATIC_FILE_ERROR (a code) if it was not saved; \`static channel send\` in it uses the same agent. With --webhook, each message is a POST with the
header static-signature: t=TIME,v1=HMAC-SHA256(secret, "TIME.BODY") in hexadecimal. Exit code 0 or an answer 2xx settles a
message; otherwise it is tried again after 1, 5, 30, 60 and then every 300 seconds, and put aside after --attempts
(\`static channel poison\`).`

export function addHandleFlags(command: Command): Command {
  const instead = ['count', 'timeout', 'json']
  return command
    .addOption(
      new Option('--exec <command>', 'run a shell command for each message').conflicts([...instead, 'webhook']),
    )
    .addOption(new Option('--webhook <url>', 'call a URL for each message').conflicts(instead))
    .option('--webhook-secret-file <file>', 'the secret that signs the calls (default: STATIC_WEBHOOK_SECRET)')
    .option('--webhook-payload', 'put the payload into the body, in base64')
    .option('--attempts <number>', `attempts before a message is put aside (default: ${ATTEMPTS})`, wholeNumber)
}

/** Hands each message to the program, until Ctrl-C. */
export async function handleMessages(name: string, flags: AgentFlags & HandleFlags & SaveFlags): Promise<void> {
  const stop = new AbortController()
  const handler = markFurtherAttempts(await handlerOf(flags, stop.signal))
  const saver = FileSaver.open(flags, agentPlace(flags).dataDir)
  const agent = await openAgent(flags, { share: true, readsAlone: true })
  try {
    const events = agent.events()
    if (events) void printEvents(agent, events)
    const saving: MessageHandler = async (message) =>
      await handler(saver ? await saver.save(agent, message, true) : message)
    const handling = agent.handle(name, saving, { attempts: flags.attempts ?? ATTEMPTS, signal: stop.signal })
    if (!agent.remote) printStart(agent, name)
    await untilInterrupted(handling)
  } finally {
    // A message in progress will be delivered again.
    stop.abort()
    await agent.close()
  }
}

async function handlerOf(flags: AgentFlags & HandleFlags, signal: AbortSignal): Promise<MessageHandler> {
  const { exec, webhook, webhookSecretFile: file, webhookPayload: withPayload = false } = flags
  if (webhook === undefined) return commandHandler(parseCommand(exec ?? ''), agentPlace(flags), signal)
  const url = parseWebhook(webhook)
  const variable = process.env['STATIC_WEBHOOK_SECRET'] || undefined
  const instead = '--webhook-secret-file or STATIC_WEBHOOK_SECRET'
  if (file === undefined && variable === undefined) {
    throw StaticError.of('invalid_request', `A webhook needs a secret that signs the calls. Pass it with ${instead}.`)
  }
  const secret = file === undefined ? (variable ?? '') : await secretOf({ what: 'webhook secret', file, instead })
  checkSecret(secret)
  return webhookHandler({ url, secret, withPayload }, signal)
}

function printStart({ identity }: OpenAgent, name: string): void {
  note(`handling messages of ${name} as ${identity}; press Ctrl-C to stop.`)
}
