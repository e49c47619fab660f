/** Agents that show who runs them, and owners that demand it: real agents and a real relay. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { IS_WHOLE } from '@static/testkit/whole'
import { type MemberProof, shownProof } from '../../src/channel/proving/member-proof.ts'
import type { Transport } from '../../src/ports/index.ts'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { type Beliefs, CiService, Company, proofsOf } from '../support/company.ts'
import { type AgentOptions, code, event, NAME, takeEnvelope, TestSystem, waysFor } from '../support/test-system.ts'

const DOMAIN = 'acme.example'
const ISSUER = 'https://ci.example'
const MINUTE = 60_000

/** A company, a CI service, and agents that believe both, on one clock. */
class Scene {
  readonly world: TestSystem
  readonly company: Company
  readonly ci: CiService
  /** All clocks of agents are ahead by this. */
  skew = 0

  constructor(world: TestSystem) {
    this.world = world
    this.company = new Company(world, DOMAIN)
    this.ci = new CiService(world, ISSUER)
  }

  static async start(t: TestContext, way: 'quic' | 'grpc'): Promise<Scene> {
    return new Scene(await TestSystem.start(t, way))
  }

  async agent(name: string, beliefs: Beliefs = {}, options: AgentOptions = {}): Promise<StaticClient> {
    const proofs = proofsOf(this.world, name, { roots: [this.company, this.ci], ...beliefs })
    return await this.world.agent(name, { now: () => Date.now() + this.skew, chance: () => 0, proofs, ...options })
  }

  /** An agent with a statement of the company. */
  async employee(name: string, beliefs: Beliefs = {}, options: AgentOptions = {}): Promise<StaticClient> {
    const agent = await this.agent(name, beliefs, options)
    await this.company.sign(name, agent)
    return agent
  }

  async owner(require?: string, options: AgentOptions = {}): Promise<{ owner: StaticClient; channel: Channel }> {
    const owner = await this.agent('owner', {}, options)
    return { owner, channel: await owner.createChannel(NAME, require === undefined ? {} : { require }) }
  }
}

function proofIn(channel: Channel, { agentId }: Pick<StaticClient, 'agentId'>): MemberProof | undefined {
  return channel.members().find((member) => member.agentId === agentId)?.proof
}

/** What a member shows, in words, once it is the expected one. No event says that a proof cannot be checked. */
async function shows(channel: Channel, member: StaticClient, words: RegExp): Promise<void> {
  for (let tries = 0; tries < 1000; tries++) {
    const proof = proofIn(channel, member)
    if (proof && words.test(shownProof(proof))) return
    await setTimeout(20)
  }
  const proof = proofIn(channel, member)
  assert.fail(`It shows ${proof && shownProof(proof)}.`)
}

for (const way of waysFor('grpc')) {
  test(`an owner admits only agents that prove who runs them, and joiners hear one code, ${way}`, async (t) => {
    const scene = await Scene.start(t, way)
    const { owner, channel } = await scene.owner(DOMAIN)
    const refusals: string[] = []
    void (async () => {
      for await (const happened of owner.events()) if (happened.type === 'join_refused') refusals.push(happened.reason)
    })()
    const token = await owner.invite(NAME, { maxUses: 2 })
    await assert.rejects(owner.invite(NAME, { admit: 'members' }), code('invalid_request', /only the owner admits/))

    const stranger = await scene.agent('stranger')
    await assert.rejects(stranger.joinWithToken(NAME, token, 20), code('proof_required', /it shows none/))
    await assert.rejects(
      stranger.joinWithToken(NAME, token, 20, { show: DOMAIN }),
      code('invalid_request', /no statement of acme.example/),
    )
    const evil = new Company(scene.world, 'evil.example')
    await evil.sign('stranger', stranger)
    await assert.rejects(
      stranger.joinWithToken(NAME, token, 20, { show: 'evil.example' }),
      code('proof_required', /which it accepts/),
    )
    const job = await scene.agent('job', { proof: scene.ci.job('other') })
    await assert.rejects(job.joinWithToken(NAME, token, 20, { show: true }), code('proof_required', /which it accepts/))
    const thief = await scene.agent('thief', { proof: scene.ci.job('thief') })
    const fixed = await scene.ci.job('x')('static:another')
    const copied = await scene.agent('copied', { proof: () => fixed })
    await assert.rejects(
      copied.joinWithToken(NAME, token, 20, { show: true }),
      code('invalid_request', /made for another audience/),
    )
    assert.deepEqual(refusals, [
      'Its proof is unchecked: no root. It claims evil.example.',
      'It is https://ci.example other, which no rule names.',
    ])
    assert.equal(thief.channels().length, 0)
    assert.deepEqual(
      owner.invites(NAME).map(({ uses }) => uses),
      [0],
      'no use is lost',
    )

    const deployer = await scene.employee('deployer')
    const joined = await deployer.joinWithToken(NAME, token, 20, { show: DOMAIN })
    assert.equal(shownProof(proofIn(channel, deployer)!), 'acme.example deployer')
    await joined.send('done')
    const { sender } = await takeEnvelope(channel)
    assert.equal(sender.proof?.state, 'checked')
    assert.ok(sender.proof.until.getTime() > Date.now())
    assert.equal(proofIn(joined, owner), undefined, 'the owner shows nothing')
  })

  test(`members show their proofs to those that join later, and verdicts outlive a restart without a check, ${way}`, async (t) => {
    const scene = await Scene.start(t, way)
    const { owner, channel } = await scene.owner()
    const deployer = await scene.employee('deployer')
    const mine = await deployer.joinWithToken(NAME, await owner.invite(NAME), 20, { show: DOMAIN })
    await shows(channel, deployer, /^acme.example deployer$/)
    // Another believes nobody, and is told all the same.
    const late = await scene.agent('late', { roots: [] })
    scene.skew += 11 * MINUTE
    const told = await late.joinWithToken(NAME, await owner.invite(NAME), 20)
    await shows(told, deployer, /^claims acme.example \(unchecked: no root\)$/)
    assert.equal(proofIn(mine, late), undefined)

    await owner.close()
    let checked = 0
    const again = await scene.agent('owner', { checked: () => checked++ })
    const reopened = again.channel(NAME)
    assert.equal(shownProof(proofIn(reopened, deployer)!), 'acme.example deployer')
    for (let count = 0; count < 5; count++) {
      await mine.send(`message ${count}`)
      assert.equal((await takeEnvelope(reopened)).sender.proof?.state, 'checked')
    }
    // That it has shown again for the others may arrive only now.
    assert.ok(checked <= 1, `${checked} checks for 5 messages`)

    // Its issuer withdraws it.
    const [statement] = scene.company.store.statements(Date.now())
    scene.company.store.revoke(statement!.id, Date.now())
    scene.company.publish()
    await again.close()
    const last = await scene.agent('owner', { isForgetful: true })
    await shows(last.channel(NAME), deployer, /invalid: its issuer has revoked it/)
    assert.equal(last.channel(NAME).members().length, 3, 'it stays')
  })

  test(`members that others add have ten minutes to prove themselves; an outage removes nobody, ${way}`, async (t) => {
    const scene = await Scene.start(t, way)
    const { owner, channel } = await scene.owner(DOMAIN)
    const deployer = await scene.employee('deployer')
    const mine = await deployer.joinWithToken(NAME, await owner.invite(NAME), 20, { show: DOMAIN })
    const add = async (client: StaticClient, show?: string): Promise<Channel> => {
      const welcome = await mine.addMember(await client.generateKeyPackage())
      return await client.joinChannel(NAME, welcome, show === undefined ? {} : { show })
    }
    const silent = await scene.agent('silent')
    const proven = await scene.employee('proven')
    await add(proven, DOMAIN)
    await shows(channel, proven, /^acme.example proven$/)
    const offered = await scene.employee('offered')
    const offers = offered.joins()
    await channel.addMember(offered.agentId)
    const { value: offer } = await offers.next()
    await offer?.accept({ show: DOMAIN })
    await shows(channel, offered, /^acme.example offered$/)
    await add(silent)
    // Whether this one is of the company is not known, because its keys are out of reach.
    const other = new Company(scene.world, 'out-of-reach.example')
    other.hide()
    const rules = [DOMAIN, 'out-of-reach.example']
    await owner.close()
    const last = await scene.agent('owner', { roots: [scene.company, other] })
    const again = await last.createChannel(NAME, { require: rules })
    const unknown = await scene.agent('unknown')
    await other.sign('unknown', unknown)
    await unknown.joinChannel(NAME, await again.addMember(await unknown.generateKeyPackage()), {
      show: 'out-of-reach.example',
    })
    await shows(again, unknown, /^claims out-of-reach.example \(unchecked: its keys are out of reach/)
    // A call that fails demands nothing of one that is a member already.
    const another = await proven.generateKeyPackage()
    await assert.rejects(
      again.addMember(another, { require: 'out-of-reach.example' }),
      code('invalid_request', /already a member/),
    )
    const removed = event(last, 'member_unproven')
    const gone = event(last, 'members_changed', ({ removed: some }) => some.length > 0)
    scene.skew += 11 * MINUTE
    assert.equal((await removed).member, silent.agentId)
    assert.deepEqual((await gone).removed, [silent.agentId])
    // Whoever is removed in an outage would be by the time that another one is.
    const later = await scene.agent('later')
    await later.joinChannel(NAME, await again.addMember(await later.generateKeyPackage()))
    const next = event(last, 'members_changed', ({ removed: some }) => some.length > 0)
    scene.skew += 11 * MINUTE
    assert.deepEqual((await next).removed, [later.agentId])
    assert.equal(proofIn(again, proven)?.state, 'checked')
    assert.ok(
      again.members().some(({ agentId }) => agentId === unknown.agentId),
      'nobody is removed for an outage',
    )
  })

  test(`a proof counts nowhere when another shows it, in another channel or after a new admission, ${way}`, async (t) => {
    const scene = await Scene.start(t, way)
    const { owner, channel } = await scene.owner()
    const made: Uint8Array[] = []
    let replayed: Uint8Array | undefined
    const beliefs = { made: (proof: Uint8Array) => made.push(proof), replays: () => replayed }
    const deployer = await scene.employee('deployer', beliefs)
    await deployer.joinWithToken(NAME, await owner.invite(NAME, { require: DOMAIN }), 20, { show: DOMAIN })
    await shows(channel, deployer, /^acme.example deployer$/)
    const elsewhere =
      /^claims acme.example \(invalid: this member did not sign it for this place\)$|^shows a proof \(invalid: this member did not sign it for this place\)$/
    // In the box of its request, and in the channel.
    for (const [at, proof] of made.entries()) {
      const thief = await scene.employee(`thief-${at}`, { replays: () => proof })
      const reason = event(owner, 'join_refused', ({ agent }) => agent === thief.agentId)
      const guarded = await owner.invite(NAME, { require: DOMAIN })
      await assert.rejects(thief.joinWithToken(NAME, guarded, 20, { show: DOMAIN }), code('proof_required'))
      assert.match((await reason).reason, /^Its proof is invalid: this member did not sign it for this place\.$/)
      await thief.joinWithToken(NAME, await owner.invite(NAME), 20, { show: DOMAIN })
      await shows(channel, thief, elsewhere)
    }
    const [, last] = made
    assert.ok(last, 'it has shown one in the channel')
    replayed = last
    const second = await owner.createChannel(`${NAME}-2`)
    await deployer.joinWithToken(second.name, await owner.invite(second.name), 20, { show: DOMAIN })
    await shows(second, deployer, elsewhere)
    const again = async (): Promise<void> => {
      await channel.removeMember(deployer.agentId)
      const welcome = await channel.addMember(await deployer.generateKeyPackage())
      assert.equal(proofIn(channel, deployer), undefined, 'what it has shown before is forgotten')
      await deployer.joinChannel(NAME, welcome, { show: DOMAIN })
    }
    await again()
    await shows(channel, deployer, elsewhere)
    replayed = undefined
    await again()
    await shows(channel, deployer, /^acme.example deployer$/)
    assert.equal(proofIn(second, deployer)?.state, 'invalid')
  })

  test(`jobs with a new key in each run take the place of the last one, ${way}`, async (t) => {
    const scene = await Scene.start(t, way)
    const { owner, channel } = await scene.owner()
    const rule = { oidc: { issuer: ISSUER, subject: 'repo:acme/app:*' } }
    const token = await owner.invite(NAME, { maxUses: 100, require: rule, replace: true })
    const identity = 'runner'
    let last: StaticClient | undefined
    for (let run = 0; run < (IS_WHOLE ? 40 : 3); run++) {
      const storeOptions = { identity: Buffer.from(identity) }
      const job = await scene.agent(
        `run ${run}`,
        { proof: scene.ci.job('repo:acme/app:main') },
        { storeOptions, account: null },
      )
      const joined = await job.joinWithToken(NAME, token, 20, { show: true })
      await joined.send(`run ${run}`)
      assert.equal((await takeEnvelope(channel)).text(), `run ${run}`)
      assert.deepEqual(
        channel
          .members()
          .map(({ agentId }) => agentId)
          .sort(),
        [owner.agentId, job.agentId].sort(),
      )
      if (last) assert.throws(() => last?.channel(NAME).members(), code('removed'))
      last = job
    }
    // Another subject of the same identity does not.
    const other = await scene.agent(
      'other',
      { proof: scene.ci.job('repo:acme/app:fork') },
      { storeOptions: { identity: Buffer.from(identity) } },
    )
    await assert.rejects(other.joinWithToken(NAME, token, 20, { show: true }), code('identity_changed'))
    // The salt hides the agent from the issuer: no audience twice, for no agent.
    assert.equal(new Set(scene.ci.audiences).size, scene.ci.audiences.length)
  })

  test(`nothing of a proof is in what the relay gets, ${way}`, async (t) => {
    const scene = await Scene.start(t, way)
    const sent: Buffer[] = []
    const transport = (inner: Transport): Transport => ({
      form: inner.form,
      dial: async (target, handlers) => {
        const stream = await inner.dial(target, handlers)
        const write = stream.write.bind(stream)
        return Object.assign(stream, {
          write: (cells: Uint8Array, urgent?: boolean) => {
            sent.push(Buffer.from(cells))
            write(cells, urgent)
          },
        })
      },
    })
    const { owner, channel } = await scene.owner(DOMAIN, { transport })
    const canary = await scene.employee('canary', {}, { transport })
    const [jwt = ''] = JSON.parse(
      readFileSync(`${scene.world.directoryOf('canary')}/statements.json`, 'utf8'),
    ) as string[]
    await canary.joinWithToken(NAME, await owner.invite(NAME), 20, { show: DOMAIN })
    await shows(channel, canary, /^acme.example canary$/)
    const all = Buffer.concat(sent)
    // Whole cells would split it: any part of a line of it is enough.
    for (let at = 0; at + 40 <= jwt.length; at += 20) {
      assert.ok(!all.includes(jwt.slice(at, at + 40)), 'a piece of the statement')
    }
    assert.ok(!all.includes(DOMAIN) && !all.includes('static-agent'))
    assert.ok(all.includes(NAME), 'what is sent is searched')
  })
}
