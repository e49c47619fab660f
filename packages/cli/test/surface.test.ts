/** Everything that a program can do with the SDK, people can do with a command, or the table says why not. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { makeProgram } from '../src/program.ts'

/** The public methods, each with the command that does the same, or the reason why there is none. */
const METHODS: Readonly<Record<string, `static ${string}` | { readonly why: string }>> = {
  'Channel.send': 'static channel send',
  'Channel.sendJson': { why: '`send` takes JSON as any other text' },
  'Channel.sendFile': 'static channel send',
  'Channel.files': 'static channel files list',
  'Channel.history': 'static channel history',
  'Channel.eraseHistory': 'static channel history',
  'Channel.requestApproval': 'static channel request-approval',
  'Channel.approvals': 'static channel approvals',
  'Channel.deleteFile': 'static channel files drop',
  'ReceivedFile.save': 'static channel files save',
  'ReceivedFile.stream': { why: 'a command saves a file, which any program can read' },
  'ReceivedFile.drop': 'static channel files drop',
  'Channel.messages': 'static channel listen',
  'Channel.envelopes': 'static channel listen',
  'Channel.handle': 'static channel listen',
  'Channel.ask': 'static channel ask',
  'Channel.askOne': 'static channel ask',
  'Channel.askJson': { why: '`ask` takes JSON as any other text' },
  'Channel.asked': { why: 'for a program that was restarted; a command asks again' },
  'Channel.serve': 'static channel serve',
  'Channel.receipts': 'static channel receipts',
  'Channel.reached': 'static channel send',
  'Channel.members': 'static channel members',
  'Channel.waitForMember': 'static channel members',
  'Channel.addMember': { why: 'people let others in with invites, which need no exchange of ids or KeyPackages' },
  'Channel.addMembers': { why: 'as addMember' },
  'Channel.acceptNewKey': 'static channel accept-new-key',
  'Channel.removeMember': 'static channel remove',
  'Channel.rotate': 'static channel rotate',
  'Channel.leave': 'static channel leave',
  'Channel.delete': 'static channel delete',
  'Channel.rejectCommit': 'static channel reject-commit',
  'Channel.liftBar': 'static channel lift-bar',
  'Channel.vouch': 'static channel vouch',
  'Channel.resetRoster': 'static channel reset-roster',
  'Channel.setStandby': 'static channel standby',
  'Channel.transfer': 'static channel transfer',
  'Channel.takeOver': 'static channel take-over',
  'Channel.catchUp': { why: 'commands that need the current state catch up by themselves' },
  'Channel.verify': 'static channel verify',
  'Channel.acceptFork': 'static channel accept-fork',
  'Channel.close': { why: 'a command closes what it opens' },
  'PoisonMessages.list': 'static channel poison list',
  'PoisonMessages.retry': 'static channel poison retry',
  'PoisonMessages.drop': 'static channel poison drop',
  'StaticClient.connect': { why: 'every command of an agent connects' },
  'StaticClient.fingerprint': 'static agent export-fingerprint',
  'StaticClient.createChannel': 'static channel create',
  'StaticClient.channel': { why: 'commands name their channel' },
  'StaticClient.channels': 'static channel list',
  'StaticClient.generateKeyPackage': { why: 'as addMember' },
  'StaticClient.joinChannel': { why: 'as addMember' },
  'StaticClient.invite': 'static channel invite',
  'StaticClient.inviteLink': 'static channel invite',
  'StaticClient.revokeInvite': 'static channel invite revoke',
  'StaticClient.invites': 'static channel invite list',
  'StaticClient.joinWithToken': 'static channel join',
  'StaticClient.joinWithLink': 'static channel join',
  'StaticClient.joins': { why: 'as addMember' },
  'StaticClient.events': 'static channel listen',
  'StaticClient.eraseHistory': 'static agent history',
  'StaticClient.close': { why: 'a command closes what it opens' },
  'StaticChannelManager.connect': { why: 'every command of an agent connects' },
  'StaticChannelManager.create': 'static channel create',
  'StaticChannelManager.invite': 'static channel invite',
  'StaticChannelManager.inviteLink': 'static channel invite',
  'StaticChannelManager.revokeInvite': 'static channel invite revoke',
  'StaticChannelManager.invites': 'static channel invite list',
  'StaticChannelManager.joinWithToken': 'static channel join',
  'StaticChannelManager.joinWithLink': 'static channel join',
  'StaticChannelManager.send': 'static channel send',
  'StaticChannelManager.receive': 'static channel listen',
  'StaticChannelManager.receiveEnvelopes': 'static channel listen',
  'StaticChannelManager.channels': 'static channel list',
  'StaticChannelManager.close': { why: 'a command closes what it opens' },
}

/** The methods in the reference, which is generated from the declarations and checked with them. */
function publicMethods(): string[] {
  const reference = readFileSync(join(import.meta.dirname, '../../../docs/reference/typescript.md'), 'utf8')
  const methods = reference.matchAll(/^#### ((?:Channel|StaticClient|StaticChannelManager|ReceivedFile)\.\w+)$/gm)
  const [, poison = ''] = /^### PoisonMessages$([^#]*)/m.exec(reference) ?? []
  const fields = poison.matchAll(/^\| `(\w+)\(/gm)
  return [
    ...Array.from(methods, ([, name = '']) => name),
    ...Array.from(fields, ([, name]) => `PoisonMessages.${name}`),
  ]
}

test('every public method of the SDK has a command, or a reason why not', async () => {
  assert.deepEqual(publicMethods().sort(), Object.keys(METHODS).sort())
  const program = await makeProgram()
  for (const [method, entry] of Object.entries(METHODS)) {
    if (typeof entry !== 'string') continue
    const found = entry
      .split(' ')
      .slice(1)
      .reduce<Command | undefined>((at, name) => at?.commands.find((child) => child.name() === name), program)
    assert.ok(found, `${method}: there is no \`${entry}\``)
  }
})
