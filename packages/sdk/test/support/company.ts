/** A company that says which agents are its own, with the keys of its domain in a file, and agents that believe it. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import { DomainStore } from '../../src/account/trust/domain-store.ts'
import { openProofDesk, type ProofOption } from '../../src/account/trust/desk.ts'
import { holdStatement } from '../../src/account/trust/statements-file.ts'
import type { AgentParts } from '../../src/agent/agent.ts'
import { parseRoot } from '../../src/proofs/roots.ts'
import type { StaticClient } from '../../src/public/client.ts'
import type { TestSystem } from './test-system.ts'

/** What an agent shows and believes. */
export interface Beliefs {
  readonly roots?: readonly (Company | CiService)[]
  readonly proof?: ProofOption
  /** Its keys are fetched, whatever was fetched before. */
  readonly isForgetful?: boolean
  /** Counts what is checked. */
  readonly checked?: () => void
  /** Gets each proof that it makes. */
  readonly made?: (proof: Uint8Array) => void
  /** What it shows instead of its own proof, while there is something. */
  readonly replays?: () => Uint8Array | undefined
}

/** For `AgentOptions.proofs`. */
export function proofsOf(
  world: TestSystem,
  name: string,
  { roots = [], proof, checked, isForgetful, made, replays }: Beliefs,
): AgentParts['proofs'] {
  const dataDir = world.directoryOf(name)
  const directory = join(world.relay.directory, 'trust')
  const settings = { dataDir, identity: name, proof, proxy: undefined, environment: {} }
  const places = { trust: join(directory, isForgetful ? randomUUID() : name), domains: join(directory, 'domains') }
  return (sign, listener) => {
    const desk = openProofDesk({ ...settings, ...places, roots: roots.map((root) => root.root) }, sign, listener)
    return {
      ...desk,
      check: (...proof) => {
        checked?.()
        return desk.check(...proof)
      },
      make: async (...place) => {
        const replayed = replays?.()
        if (replayed) return replayed
        const proof = await desk.make(...place)
        made?.(proof)
        return proof
      },
    }
  }
}

/** Its key is on the machine of the test, its file where its root says. */
export class Company {
  readonly store: DomainStore
  readonly #world: TestSystem
  readonly #keys: string

  constructor(world: TestSystem, domain: string) {
    const directory = join(world.relay.directory, `company-${domain}`)
    mkdirSync(directory, { recursive: true })
    this.#world = world
    this.#keys = join(directory, 'static-agents.json')
    this.store = new DomainStore(directory, domain)
    this.store.init()
    this.publish()
  }

  get root(): ReturnType<typeof parseRoot> {
    return parseRoot(this.store.domain, { keys: this.#keys })
  }

  publish(): void {
    writeFileSync(this.#keys, this.store.publicFile(Date.now()))
  }

  /** Its keys are out of reach. */
  hide(): void {
    rmSync(this.#keys)
  }

  /** Says of an agent that it is its own, and installs that. */
  async sign(name: string, { agentId }: Pick<StaticClient, 'agentId'>, subject: string = name): Promise<void> {
    const jwt = await this.store.sign({ agentId, subject }, 30, Date.now())
    holdStatement(this.#world.directoryOf(name), jwt)
  }
}

/** A CI service that gives each job a token for the audience that it asks for. */
export class CiService {
  readonly #key = generateKeyPairSync('ed25519')
  readonly #keys: string
  readonly issuer: string
  /** The audiences that it was asked for. */
  readonly audiences: string[] = []

  constructor(world: TestSystem, issuer: string) {
    this.issuer = issuer
    this.#keys = join(world.relay.directory, 'ci-keys.json')
    const jwk = { ...this.#key.publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'EdDSA', use: 'sig' }
    writeFileSync(this.#keys, JSON.stringify({ keys: [jwk] }))
  }

  get root(): ReturnType<typeof parseRoot> {
    return parseRoot(`oidc:${this.issuer}`, { keys: this.#keys })
  }

  /** The callback of a job. */
  job(subject: string): (audience: string) => Promise<string> {
    return async (audience) => {
      this.audiences.push(audience)
      return await new SignJWT({})
        .setProtectedHeader({ alg: 'EdDSA', kid: 'one', typ: 'JWT' })
        .setIssuer(this.issuer)
        .setSubject(subject)
        .setAudience(audience)
        .setIssuedAt()
        .setExpirationTime('10m')
        .sign(this.#key.privateKey)
    }
  }
}
