/**
 * The commands in groups. A command's code is loaded only when it is used, because loading takes most of the start-up
 * time.
 */
import type { Command } from 'commander'

/** A group of the help page: the description of each command, and how to load it. */
interface Group {
  readonly title: string
  readonly commands: Readonly<
    Record<string, readonly [description: string, load: (program: Command) => Promise<Command>]>
  >
}

/** Ordered as on the help page. */
export const GROUPS: readonly Group[] = [
  {
    title: 'Servers:',
    commands: {
      up: [
        'run the whole system (API, console and relay) on this machine',
        async () => (await import('./commands/up.ts')).upCommand(),
      ],
      api: ['run only the HTTP API', async () => (await import('./commands/api.ts')).apiCommand()],
      relay: ['run only a relay', async () => (await import('./commands/relay.ts')).relayCommand()],
      proxy: [
        'run a proxy that forwards gRPC agents to a relay over QUIC',
        async () => (await import('./commands/proxy.ts')).proxyCommand(),
      ],
      admin: [
        'administer accounts and backups; needs access to the data directory',
        async () => (await import('./commands/admin.ts')).adminCommand(),
      ],
    },
  },
  {
    title: 'Account:',
    commands: {
      signup: [
        'create an account and save its first API key on this machine',
        async () => (await import('./commands/signup.ts')).signupCommand(),
      ],
      login: [
        'create an API key with e-mail and password, and save it on this machine',
        async () => (await import('./commands/login.ts')).loginCommand(),
      ],
      logout: [
        'remove the API key saved on this machine',
        async () => (await import('./commands/logout.ts')).logoutCommand(),
      ],
      whoami: [
        'show the account and agent that commands use',
        async () => (await import('./commands/whoami.ts')).whoamiCommand(),
      ],
      keys: ['list, create and revoke API keys', async () => (await import('./commands/keys.ts')).keysCommand()],
      token: [
        'exchange the API key for a relay access token, valid for one hour; agents do this automatically',
        async () => (await import('./commands/token.ts')).tokenCommand(),
      ],
      usage: [
        'show the messages sent this month and the limit of the plan',
        async () => (await import('./commands/usage.ts')).usageCommand(),
      ],
      console: [
        'print the URL of the web console and open it in a browser',
        async () => (await import('./commands/console.ts')).consoleCommand(),
      ],
    },
  },
  {
    title: 'Channels:',
    commands: {
      channel: [
        'create, join and use encrypted channels',
        async () => (await import('./commands/channel.ts')).channelCommand(),
      ],
      agent: [
        'create, list and delete agents on this machine, and manage the keys that unlock them',
        async () => (await import('./commands/agent.ts')).agentCommand(),
      ],
      approval: [
        'check that the record of an approval permits an action',
        async () => (await import('./commands/approval.ts')).approvalCommand(),
      ],
      trust: [
        'list the issuers whose proofs your agents believe, add and remove them',
        async () => (await import('./commands/trust.ts')).trustCommand(),
      ],
      domain: [
        'say which agents your domain runs: make its key, sign and revoke statements',
        async () => (await import('./commands/domain.ts')).domainCommand(),
      ],
      a2a: [
        'A2A over a channel: print the entry for an Agent Card',
        async () => (await import('./commands/a2a.ts')).a2aCommand(),
      ],
      mcp: [
        'serve an agent to a language model, as an MCP server on stdin and stdout',
        async () => (await import('./commands/mcp.ts')).mcpCommand(),
      ],
    },
  },
  {
    title: 'Help:',
    commands: {
      doctor: [
        'check versions, files, ports, certificate, clock, API and relay, and say how to fix problems',
        async () => (await import('./commands/doctor.ts')).doctorCommand(),
      ],
      completion: [
        'print a shell completion script for `static`',
        async (program) => (await import('./commands/completion.ts')).completionCommand(program),
      ],
    },
  },
]
