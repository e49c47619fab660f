/**
 * The walls of the house: the imports and globals that each place must do without. `oxlint.config.ts` makes them rules
 * of the linter, and `tests/house/walls.test.ts` plants breaches of them.
 *
 * A place is a folder or a file; `sdk/agent` is short for `packages/sdk/src/agent`. A row holds in the places that it
 * names and in all that they contain, except for those with a `!`.
 */

/** The packages, and which of the others each may import. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  node: ['protocol'],
  api: ['protocol', 'node'],
  quic: ['protocol', 'node'],
  relay: ['protocol', 'node', 'quic'],
  sdk: ['protocol', 'node', 'quic'],
  a2a: ['protocol', 'sdk'],
  cli: ['protocol', 'node', 'sdk', 'api', 'relay'],
  console: ['protocol'],
}
const NAMES = [...Object.keys(PACKAGES), 'testkit']
const ALL = NAMES.join('|')

/** The commands that run servers. */
const SERVERS = ['up', 'api', 'relay', 'proxy', 'admin/backup', 'admin/copy', 'admin/database'].map(
  (name) => `cli/commands/${name}.ts`,
)

/** The inside of the SDK, which must run without Node. */
const INSIDE =
  'sdk/agent sdk/channel sdk/files sdk/approvals sdk/joining sdk/admitting sdk/session sdk/proofs sdk/mls sdk/store/rows sdk/store/ring'

const INTERNAL = '^@static/[a-z0-9]+/internal$'
const TEST_KIT = '^@static/testkit(/|$)'

/** Imports that match `never` are refused, except for those that `but` allows. */
type Wall = readonly [where: string, never: string, why: string, but?: Readonly<Record<string, unknown>>]

/** A rule of the linter for some files. */
interface Override {
  readonly files: string[]
  readonly rules: Record<string, ['error', ...unknown[]]>
}

const WALLS: readonly Wall[] = [
  ...Object.entries(PACKAGES).flatMap(([name, may]): Wall[] => [
    [name, `^@static/(${allBut(may)})(/|$)`, `Of our packages, ${name} may import ${may.join(', ') || 'none'}.`],
    [name, `^(\\.\\./)+(${ALL})/`, "Go through the package's public entry."],
    [name, INTERNAL, 'Only the test kit imports what is internal.'],
  ]),
  ['protocol', '^node:', 'protocol is pure: no I/O, clock or randomness.'],
  ['node quic relay', 'mls', 'Only the SDK knows an MLS library.'],

  [
    'api !api/db !api/http !api/routes !api/index.ts !api/main.ts',
    '^(kysely|pg|fastify|node:(sqlite|http|https|net|tls))$|/db/|/routes/',
    'Rules know neither HTTP nor SQL: use ports.ts.',
  ],

  ['relay/core', '^node:', 'The core is pure: no I/O, clock or randomness.'],
  ['relay/core', '^@static/node(/|$)', 'The core may import protocol only.'],
  ['relay/core', '/(store|transport)/', 'The core knows ports.ts, not engines and transports.'],
  ['relay/store', '/(core|transport)/', 'Engines know ports.ts, not the core and transports.'],
  [
    'relay/store !relay/store/copy',
    '/(sqlite|postgres)/',
    'Neither engine knows the other, and what both use knows neither; only copy/ knows both.',
  ],
  ['relay/transport', '/(core|store)/', 'Transports know ports.ts, not the core and engines.'],

  [
    'sdk !sdk/transport/quic-package.ts',
    '^@static/quic$',
    'QUIC may not be installed: use transport/quic-package.ts.',
    { allowTypeImports: true },
  ],
  [
    'sdk/transport/quic-package.ts',
    '^@static/quic$',
    'Load QUIC when it is used: await import().',
    { allowTypeImports: true, importNamePattern: '.' },
  ],

  ['sdk !sdk/mls/ts-mls', '^ts-mls(/|$)', 'Only the adapter knows the MLS library: use engine.ts.'],
  ['sdk/ports', '^\\.\\./', 'Ports know nothing else of the package.'],
  [
    'sdk/agent sdk/channel sdk/files',
    '/(account|driver|public|session|store|transport)/|/admitting/invites',
    'Agents, channels and files know the ports, not sessions, engines and transports.',
  ],
  [
    'sdk/joining sdk/admitting',
    '/(driver|public|session|store|transport)/',
    'Joining and admitting know the agent, its channels and the ports, not sessions, engines and transports.',
  ],
  [
    'sdk/session',
    '/(admitting|agent|channel|driver|files|joining|mls|public|store|transport)/',
    'Sessions know the ports, not agents, channels, engines and transports.',
  ],
  [
    'sdk/proofs',
    '/(account|admitting|agent|channel|driver|joining|mls|public|session|store|transport)/',
    'Proofs know the platform alone: what they need is in CheckerPorts.',
  ],
  [
    'sdk/approvals',
    '/(account|admitting|agent|channel|driver|files|joining|mls|proofs|public|session|store|transport)/',
    'What is signed about approvals, and what it is worth, knows the platform alone.',
  ],
  [
    'sdk/store',
    '/(account|admitting|agent|channel|driver|joining|session|transport)/|/public/[^f]',
    'The store knows the ports, not agents, channels, sessions and transports.',
  ],
  [
    'sdk/transport',
    '/(account|admitting|agent|channel|driver|files|joining|mls|public|session|store)/',
    'Transports know the ports, not agents, channels, sessions and the store.',
  ],
  [
    INSIDE,
    '^node:|^@static/quic$|^@static/node/(checksum|compare|dial|digest|disk-space|ed25519|files|logger|sodium|turns)',
    'The inside of the SDK reaches Node through #platform/crypto and #platform/turn alone.',
  ],

  [
    ['cli', ...SERVERS.map((file) => `!${file}`)].join(' '),
    '^@static/(api|relay)$',
    'Only the commands that run servers load api and relay.',
    { allowTypeImports: true },
  ],
  [
    SERVERS.join(' '),
    '^@static/(api|relay)$',
    'Load api and relay when the command runs: await import().',
    { allowTypeImports: true, importNamePattern: '.' },
  ],
  ['console', '^node:|^@static/protocol/', 'The page runs in a browser and knows the API by HTTP alone.'],
  [
    'console',
    '^@static/protocol$',
    'The page takes types from protocol, nothing that runs.',
    { allowTypeImports: true },
  ],

  [
    'tests lab bench examples scripts',
    '/packages/[a-z0-9]+/(src|test)/',
    'Use the public entry points, as a user would.',
  ],
  ['tests lab bench examples scripts packages/*/test', INTERNAL, 'Only the test kit imports what is internal.'],
  ['examples scripts !scripts/test-set-up.ts', TEST_KIT, 'Tests alone import the test kit.'],
  ['bench', '^(\\.\\./)+tests/', 'Code that tests and measurements share is in the test kit.'],
  [
    'packages/*/test',
    `^(\\.\\./)+(packages/)?(${ALL})/(src|test)/`,
    "A package's tests know its own src; what several share is in the test kit.",
  ],
  ['packages/*/test', '^(\\.\\./)+(tests/support|bench|lab)/', 'Code that several tests share is in the test kit.'],
  ['testkit', `^(\\.\\./)+(packages/)?(${ALL})/`, "Go through the package's public entry, or its ./internal."],
]

const PURE = 'protocol relay/core sdk/mls/commit-rules.ts'

/** The globals that do not exist for a place. */
const GLOBALS: readonly (readonly [where: string, names: string])[] = [
  [`${PURE} ${INSIDE}`, 'Buffer process setTimeout setInterval setImmediate clearTimeout clearInterval clearImmediate'],
  [PURE, 'crypto performance queueMicrotask'],
  ['protocol sdk/mls/commit-rules.ts', 'Date'],
]

/** The packages except for these, as alternatives of a regular expression. */
function allBut(some: readonly string[]): string {
  return NAMES.filter((name) => !some.includes(name)).join('|')
}

/** Whether a row for `where` holds in a place. */
function holds(where: string, place: string): boolean {
  const isIn = (outer: string): boolean => place === outer || place.startsWith(`${outer}/`)
  const words = where.split(' ')
  return words.some(isIn) && !words.some((word) => word.startsWith('!') && isIn(word.slice(1)))
}

/** The files of a place, as a glob. */
function filesOf(place: string): string {
  const [first = '', ...rest] = place.split('/')
  const path = NAMES.includes(first) ? ['packages', first, 'src', ...rest].join('/') : place
  return path.endsWith('.ts') ? path : `${path}/**`
}

/**
 * A rule for each place that a table names, from all rows that hold there. Inner places come later, because the last
 * override that matches a file replaces the rule of the others.
 */
function overrides<Row extends readonly [where: string, ...unknown[]]>(
  rule: string,
  rows: readonly Row[],
  optionsOf: (rows: readonly Row[]) => readonly unknown[],
): Override[] {
  const places = new Set(rows.flatMap(([where]) => where.replaceAll('!', '').split(' ')))
  const outerFirst = [...places].sort((a, b) => a.split('/').length - b.split('/').length)
  return outerFirst.map((place) => ({
    files: [filesOf(place)],
    rules: { [rule]: ['error', ...optionsOf(rows.filter(([where]) => holds(where, place)))] },
  }))
}

/** The rules of the linter. */
export const walls: Override[] = [
  ...overrides('eslint/no-restricted-imports', WALLS, (rows) => [
    { patterns: rows.map(([, regex, message, but]) => ({ regex, message, ...but })) },
  ]),
  ...overrides('eslint/no-restricted-globals', GLOBALS, (rows) => rows.flatMap(([, names]) => names.split(' '))),
]
