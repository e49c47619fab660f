/** What binds a group to its channel, and what a lone committer adds to its commit (SPEC.md, 4.1 and 4.3). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChannelName, fromHex, toHex } from '@static/protocol'
import { computePskSecret } from 'ts-mls/presharedkey.js'
import { encodeProposal } from 'ts-mls/proposal.js'
import { agentIdOf, FOUNDER_IDENTITY } from '../../src/mls/credential.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { openCommit } from '../../src/mls/ts-mls/open-commit.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { contextExtensions } from '../../src/mls/ts-mls/view.ts'
import { decodeContext } from '../../src/mls/channel-context.ts'
import { crypto } from '../mls/attacker.ts'
import { channelOf } from '../mls/support.ts'
import { readVectors } from './own.ts'

interface Group {
  readonly agent: Record<'public_key' | 'agent_id', string>
  readonly extensions: readonly ({ readonly name: ChannelName; readonly offered: boolean } & Record<
    'owner' | 'standby' | 'required_capabilities' | 'channel',
    string
  >)[]
  readonly founder: { readonly credential: string }
  readonly lone_leaf: Record<'context' | 'psk' | 'psk_nonce' | 'proposal' | 'psk_secret', string>
}

const { agent, extensions, founder, lone_leaf: lone } = readVectors('group.json') as Group

test('vectors: an agent id, the extensions of a group, and the founder', () => {
  assert.equal(toHex(agentIdOf(fromHex(agent.public_key))), agent.agent_id)
  for (const vector of extensions) {
    const { name, offered } = vector
    const standby = /^0+$/.test(vector.standby) ? undefined : fromHex(vector.standby)
    const context = { name, owner: fromHex(vector.owner), standby, offered }
    assert.deepEqual(
      contextExtensions(context).map(({ extensionType, extensionData }) => [extensionType, toHex(extensionData)]),
      [
        ['required_capabilities', vector.required_capabilities],
        [0xf57a, vector.channel],
      ],
    )
    assert.deepEqual(decodeContext(fromHex(vector.channel)), context)
  }
  assert.equal(toHex(FOUNDER_IDENTITY), founder.credential)
})

test('vectors: the PreSharedKey of a lone committer, whose nonce is new in each commit', async () => {
  const nonces = new Set<string>()
  for (let round = 0; round < 2; round++) {
    const { agents } = await channelOf('owner', 'ann')
    const [owner, ann] = agents
    assert.ok(owner && ann)
    const { commit } = await owner.commit({ removes: [ann.agentId] })
    const message = decodeMessage('mls_private_message', commit)?.privateMessage ?? assert.fail()
    const opened = await openCommit(crypto, inside(ann.group).state, message)
    assert.ok(opened.kind === 'commit')
    const [item] = opened.commit.proposals.filter(
      (each) => each.proposalOrRefType === 'proposal' && each.proposal.proposalType === 'psk',
    )
    assert.ok(item?.proposalOrRefType === 'proposal' && 'psk' in item.proposal)
    const { preSharedKeyId } = item.proposal.psk
    const { pskNonce } = preSharedKeyId
    nonces.add(toHex(pskNonce))
    const proposal = {
      ...item.proposal,
      psk: { preSharedKeyId: { ...preSharedKeyId, pskNonce: fromHex(lone.psk_nonce) } },
    }
    assert.equal(toHex(encodeProposal(proposal)), lone.proposal)
    assert.equal(pskNonce.length, fromHex(lone.psk_nonce).length)
    const secret = await computePskSecret([[proposal.psk.preSharedKeyId, fromHex(lone.psk)]], crypto.provider)
    assert.equal(toHex(secret), lone.psk_secret)
  }
  assert.equal(nonces.size, 2)
})
