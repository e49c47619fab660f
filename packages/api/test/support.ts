/** A real API over TLS for each engine, with a clock that tests can turn. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:https'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe } from 'node:test'
import pg from 'pg'
import type { SignedUp, SignupMode } from '@static/protocol'
import { certificates } from '@static/testkit/certificates'
import { IS_WHOLE } from '@static/testkit/whole'
import { type Api, startApi } from '../src/index.ts'

export type Engine = 'sqlite' | 'postgres'

/** Argon2 that takes no time, rates that no test meets by accident, and a database that may be slow. */
const QUICK = {
  // Ten connections that are opened at once take several seconds on a busy machine.
  databaseWaitSeconds: 60,
  argon2: { memoryKib: 8, passes: 1 },
  rates: Object.fromEntries(
    [
      'account',
      'tokens',
      'keyCreations',
      'signups',
      'failures',
      'passwordsPerAddress',
      'passwords',
      'passwordsPerDevice',
      'passwordsOfDevices',
    ].map((name) => [name, { limit: 100_000 }]),
  ),
}

/** What came back. */
export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: any
}

/** What to send. */
export interface Ask {
  readonly key?: string | undefined
  readonly cookie?: string | undefined
  readonly body?: unknown
  readonly headers?: Record<string, string>
  /** The body is held back until this resolves. */
  readonly hold?: Promise<void>
}

/** A running API under test. */
export interface Bench {
  readonly api: Api
  readonly clock: { now: number }
  /** Every line that was logged. */
  readonly lines: string[]
  readonly database: string
  call(method: string, path: string, ask?: Ask): Promise<Answer>
  /** Sends bytes as they are. */
  send(
    method: string,
    path: string,
    bytes: string | Buffer | undefined,
    headers: Record<string, string>,
  ): Promise<Answer>
  /** Signs up with a fresh address. */
  signUp(email?: string): Promise<SignedUp & { password: string }>
  /** Asks the database itself. */
  query(sql: string): Promise<Record<string, unknown>[]>
  close(): Promise<void>
}

/** How to start. */
export interface BenchOptions {
  readonly settings?: Record<string, unknown>
  readonly now?: number
  /** The credentials of relay nodes; opens the listener for them. */
  readonly internal?: string | readonly string[]
  readonly database?: string
  readonly masterKey?: Uint8Array
  /** The directory of a built console. */
  readonly console?: string
  readonly relayIsReady?: () => boolean
  /** The endpoints of the relay to announce. */
  readonly relay?: Promise<{ readonly relay: readonly string[] }>
  readonly signup?: SignupMode
  readonly auditAddresses?: boolean
  readonly proxyProtocolFrom?: readonly string[]
  readonly trustedProxies?: readonly string[]
  /** `debug` by default. */
  readonly logLevel?: 'debug' | 'info'
}

const PASSWORD = 'a password for tests'
/** Starts an API on a database of its own. */
export async function startBench(engine: Engine, options: BenchOptions = {}): Promise<Bench> {
  const { authority, certificate } = await certificates()
  const scratch = options.database === undefined ? await makeDatabase(engine) : undefined
  const database = options.database ?? scratch?.database ?? ''
  const clock = { now: options.now ?? Date.now() }
  const lines: string[] = []
  const api = await startApi({
    database,
    masterKey: options.masterKey ?? randomBytes(32),
    host: 'localhost',
    port: 0,
    certificate,
    internal:
      options.internal === undefined
        ? undefined
        : { host: 'localhost', port: 0, credentials: [options.internal].flat() },
    console: options.console,
    relayIsReady: options.relayIsReady,
    relay: options.relay,
    signup: options.signup,
    auditAddresses: options.auditAddresses,
    proxyProtocolFrom: options.proxyProtocolFrom,
    trustedProxies: options.trustedProxies,
    settings: merge(QUICK, options.settings ?? {}),
    log: { write: (line) => lines.push(line), pretty: false, level: options.logLevel ?? 'debug' },
    now: () => clock.now,
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 10, ca: authority.cert })

  const call = (method: string, path: string, ask: Ask = {}): Promise<Answer> => {
    const json = ask.body === undefined ? {} : { 'content-type': 'application/json' }
    return send(
      method,
      path,
      ask.body === undefined ? undefined : JSON.stringify(ask.body),
      {
        ...(ask.key === undefined ? {} : { authorization: `Bearer ${ask.key}` }),
        ...(ask.cookie === undefined ? {} : { cookie: ask.cookie, 'x-static-csrf': '1', origin: api.url }),
        ...json,
        ...ask.headers,
      },
      ask.hold,
    )
  }
  const send = (
    method: string,
    path: string,
    bytes: string | Buffer | undefined,
    given: Record<string, string>,
    hold?: Promise<void>,
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const target = path.startsWith('/internal') ? (api.internalUrl ?? '') : api.url
      const length = bytes === undefined ? {} : { 'content-length': String(Buffer.byteLength(bytes)) }
      const headers = { ...length, ...given }
      const outgoing = request(target + path, { method, agent, headers }, (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('error', reject)
        incoming.on('end', () => {
          const raw = Buffer.concat(chunks).toString()
          const json = incoming.headers['content-type']?.includes('json') && raw !== ''
          const body: unknown = json ? JSON.parse(raw) : raw
          resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body })
        })
      })
      outgoing.on('error', reject)
      if (hold === undefined) outgoing.end(bytes)
      else {
        outgoing.flushHeaders()
        hold.then(() => outgoing.end(bytes), reject)
      }
    })

  let people = 0
  return {
    api,
    clock,
    lines,
    database,
    call,
    send,
    async signUp(email = `person-${++people}@example.com`) {
      const { status, body } = await call('POST', '/v1/accounts', { body: { email, password: PASSWORD } })
      assert.equal(status, 201)
      return { ...body, password: PASSWORD }
    },
    async query(sql) {
      if (engine === 'sqlite') {
        const file = new DatabaseSync(database, { readOnly: true })
        try {
          return file.prepare(sql).all()
        } finally {
          file.close()
        }
      }
      const client = new pg.Client(clientOptions(database))
      await client.connect()
      try {
        return (await client.query(sql)).rows
      } finally {
        await client.end()
      }
    },
    async close() {
      agent.destroy()
      await api.close()
      await scratch?.remove()
    },
  }
}

/** An empty database of its own, and how to remove it. */
export async function makeDatabase(engine: Engine): Promise<{ database: string; remove: () => Promise<void> }> {
  if (engine === 'sqlite') {
    const directory = mkdtempSync(join(tmpdir(), 'static-api-'))
    const remove = async (): Promise<void> => rmSync(directory, { recursive: true, force: true })
    return { database: join(directory, 'api.sqlite'), remove }
  }
  const admin = process.env['STATIC_TEST_POSTGRES']
  assert.ok(admin, 'PostgreSQL is not running: start the tests with `npm test`.')
  const name = `t_${randomBytes(8).toString('hex')}`
  const ask = async (sql: string): Promise<void> => {
    const client = new pg.Client(clientOptions(admin))
    await client.connect()
    await client.query(sql)
    await client.end()
  }
  await ask(`create database ${name}`)
  const url = new URL(admin)
  url.pathname = `/${name}`
  return { database: url.href, remove: () => ask(`drop database ${name} with (force)`) }
}

/** Every scenario runs on both engines. */
export function onEachEngine(name: string, scenarios: (engine: Engine) => void): void {
  onEngines(['sqlite', 'postgres'], name, scenarios)
}

/** Stories of rules whose queries others tell of each engine: `npm test` tells them of SQLite, the whole form of both. */
export function onSomeEngine(name: string, scenarios: (engine: Engine) => void): void {
  onEngines(IS_WHOLE ? ['sqlite', 'postgres'] : ['sqlite'], name, scenarios)
}

function onEngines(engines: readonly Engine[], name: string, scenarios: (engine: Engine) => void): void {
  for (const engine of engines) {
    describe(`${name} (${engine})`, { concurrency: false }, () => scenarios(engine))
  }
}

/** Asserts that an answer is a problem with this code, in the form that every problem has. */
export function assertProblem(answer: Answer, status: number, code: string): void {
  assert.equal(answer.body.code, code, JSON.stringify(answer.body))
  assert.equal(answer.status, status)
  assert.match(answer.headers['content-type'] ?? '', /^application\/problem\+json/)
  assert.equal(answer.body.status, status)
  assert.equal(answer.body.request_id, answer.headers['x-request-id'])
  assert.match(answer.body.type, new RegExp(`/docs/errors#${code}$`))
  assert.ok(answer.body.title.length > 0 && answer.body.detail.length > 0)
}

/** The session cookie of a sign-in's answer, as a browser would send it back. */
export function cookieOf(answer: Answer): string {
  return (answer.headers['set-cookie']?.[0] ?? '').split(';')[0] ?? ''
}

function clientOptions(connectionString: string): pg.ClientConfig {
  const types = new pg.TypeOverrides()
  types.setTypeParser(20, Number)
  return { connectionString, types }
}

function merge(base: Record<string, unknown>, over: Record<string, unknown>): Record<string, unknown> {
  const result = { ...base }
  for (const [name, value] of Object.entries(over)) {
    const below = result[name]
    const both = typeof below === 'object' && below !== null && typeof value === 'object' && value !== null
    result[name] = both ? merge(below as Record<string, unknown>, value as Record<string, unknown>) : value
  }
  return result
}
