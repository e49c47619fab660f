/** What `npm run pack` makes is what a user needs: in an empty project, on the oldest Node and on this one. */
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { startServer } from '@static/testkit/server'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type FindModule, readSurface } from '../../scripts/api-surface.ts'
import { assembleArchive } from '../../scripts/release/archive.ts'
import { installProject, olderNode, oldestNode, ROOT } from './installed.ts'

const nodes = { 'the oldest Node': await oldestNode(), 'this Node': process.execPath }
// Not below the checkout, where Node would find in its node_modules what a package has forgotten to ask for.
const outside = mkdtempSync('/tmp/static-pack-')
const bare = mkdtempSync('/tmp/static-bare-')
const workspace = await makeWorkspace()
// Also when the lines below fail: `after` would not run then.
process.once('exit', () => {
  workspace[Symbol.dispose]()
  for (const folder of [outside, bare]) rmSync(folder, { recursive: true, force: true })
})
const project = await installProject(outside)
const start = promisify(execFile)

const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
const examples = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code)
assert.ok(examples.length > 0)
const entries = project.packages.flatMap(({ manifest: { name, exports = {} } }) =>
  Object.keys(exports).map((path) => name + path.slice(1)),
)
assert.deepEqual(
  entries.filter((entry) => entry.endsWith('/internal')),
  [],
)
const typed = entries.filter((entry) => !entry.endsWith('.html'))
/** A program: it serves a socket that it inherits until its stdin ends. */
const DRIVER = '@static/sdk/driver'
const DRIVEN = `
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

const server = createServer().listen('driver.sock', () => {
  const words = [fileURLToPath(import.meta.resolve('${DRIVER}')), '3']
  const driver = spawn(process.execPath, words, { stdio: ['inherit', 'inherit', 'inherit', server._handle.fd] })
  driver.on('exit', (code) => process.exit(code))
})
`
const modules = typed.filter((entry) => entry !== DRIVER)

/** A worker of the SDK keeps the time of this profile. */
const CLOCKED = `
import { StaticClient } from '@static/sdk'

const where = { endpoint: 'quic://localhost:4433', apiUrl: 'https://localhost:8443' }
const carol = await StaticClient.connect({ ...where, dataDir: './carol', identity: 'carol', traffic: 'strict' })
const channel = await carol.createChannel('acme/support/clocked')
await channel.send('nobody sees when')
await carol.close()
console.log('hello')
`

test('the packages contain what runs and nothing else', (t) => {
  for (const line of project.sizes) t.diagnostic(line)
  const names = project.packages.map(({ manifest }) => manifest.name)
  assert.deepEqual(
    names,
    ['a2a', 'api', 'cli', 'console', 'node', 'protocol', 'quic', 'relay', 'sdk'].map((name) => `@static/${name}`),
  )
  for (const { path, manifest, files } of project.packages) {
    assert.ok(files.includes('README.md'))
    const allowed = manifest.name === '@static/console' ? /^dist\/.*\.(html|js|css|svg)$/ : /^dist\/.*(\.js|\.d\.ts)$/
    const others = files.filter((file) => !allowed.test(file) && !/^(package\.json|README\.md|LICENSE)$/.test(file))
    assert.deepEqual(others, [])
    assert.deepEqual(
      files.filter((file) => /\btests?\b|\binternal\./.test(file)),
      [],
    )
    for (const file of files) {
      const text = readFileSync(join(path, file), 'utf8')
      assert.ok(!text.includes(ROOT), `${file} names a path of this machine`)
      assert.doesNotMatch(text, /sk_(live|test)_\w{20}|PRIVATE KEY-----\s+[\w+/]{40}/, file)
    }
  }
})

test('the native libraries of the SDK come from its tarballs, for all systems, without what Node does not load', () => {
  const systems = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64', 'win32-arm64', 'win32-x64']
  for (const [owner, name] of [
    ['sdk', 'better-sqlite3-multiple-ciphers'],
    ['node', 'sodium-native'],
  ] as const) {
    const home = join(project.path, 'node_modules/@static', owner, 'node_modules', name)
    const files = readdirSync(home, { recursive: true, encoding: 'utf8' })
    const libraries = files.filter((file) => file.endsWith('.node'))
    for (const system of systems)
      assert.ok(
        libraries.some((file) => file.includes(system)),
        `${name} for ${system}`,
      )
    assert.deepEqual(
      files.filter((file) => /^(?:deps|src)|\.(?:bare|gyp)$|android|ios-/.test(file)),
      [],
    )
    assert.ok(files.includes('LICENSE'))
    // What it needs is there as well: without it, @static/node would do without libsodium in silence.
    const load = `require('node:module').createRequire(${JSON.stringify(join(home, 'package.json'))})(${JSON.stringify(name)})`
    assert.equal(spawnSync(process.execPath, ['-e', load], { encoding: 'utf8' }).stderr, '')
    // Not a second time from npm's registry.
    assert.ok(!existsSync(join(project.path, 'node_modules', name)))
  }
  const database = join(project.path, 'node_modules/@static/sdk/node_modules/better-sqlite3-multiple-ciphers')
  assert.match(
    readFileSync(join(database, 'prebuilds/NOTICES.txt'), 'utf8'),
    /Copyright: {3}\(c\) 2006-2025 Ulrich Telle/,
  )
})

test('all users can read what a package installs, whatever the umask was', () => {
  for (const name of readdirSync(join(project.path, 'packed')).filter((name) => name.endsWith('.tgz'))) {
    const listing = execFileSync('tar', ['-tvzf', join(project.path, 'packed', name)], { encoding: 'utf8' })
    const modes = new Set(
      listing
        .trim()
        .split('\n')
        .map((line) => line.slice(0, 10)),
    )
    assert.deepEqual([...modes.difference(new Set(['-rw-r--r--', '-rwxr-xr-x']))], [], name)
  }
})

test('one line installs the SDK, without the servers', () => {
  assert.deepEqual(project.sdk, ['node', 'protocol', 'sdk'])
})

test('a package depends on exactly what its files import', () => {
  for (const { path, manifest, files } of project.packages) {
    const { dependencies = {}, peerDependencies = {}, ...rest } = manifest
    assert.ok(!('devDependencies' in rest) && !('scripts' in rest))
    assert.deepEqual(
      Object.values(dependencies).filter((version) => !/^\d+\.\d+\.\d+$/.test(version)),
      [],
    )
    // Its page contains what it was built from.
    if (manifest.name === '@static/console') {
      assert.deepEqual(dependencies, {})
      continue
    }
    const code = files.filter((file) => file.startsWith('dist/')).map((file) => readFileSync(join(path, file), 'utf8'))
    const imports = /(?:\bfrom |\bimport |\bimport\(|\brequire\(|\bmeta\.resolve\()(['"])([@#\w][^'"\n]*)\1/g
    const found = [...code.join('\n').matchAll(imports)].map(([, , name = '']) => /^(?:@[^/]+\/)?[^/]+/.exec(name)![0])
    // Names with `#` are its own, by `imports` in its package.json.
    const foreign = new Set(found.filter((name) => !name.startsWith('node:') && !name.startsWith('#')))
    // Loaded by the MLS library, which does not ask for them itself.
    if (manifest.name === '@static/sdk') for (const name of ['@hpke/core', '@noble/hashes']) foreign.add(name)
    assert.deepEqual([...foreign].sort(), Object.keys({ ...dependencies, ...peerDependencies }).sort(), manifest.name)
  }
})

test('the types of every entry point, and the examples of the README, compile in a strict program', () => {
  const lines = typed.map((entry, at) => `export * as entry${at} from '${entry}'`)
  const wrong = `
    import { StaticClient } from '@static/sdk'
    // @ts-expect-error: an identity is no number.
    await StaticClient.connect({ identity: 1 })`
  const sources = [...examples, CLOCKED, lines.join('\n'), wrong]
  const names = sources.map((source, at) => {
    writeFileSync(join(project.path, `program-${at}.ts`), source)
    return `program-${at}.ts`
  })
  const flags = '--ignoreConfig --noEmit --module nodenext --target esnext --strict --skipLibCheck false --types node'
  const words = [join(ROOT, 'node_modules/typescript/bin/tsc'), ...flags.split(' '), ...names]
  const { stdout } = spawnSync(process.execPath, words, { cwd: project.path, encoding: 'utf8' })
  assert.equal(stdout, '')
})

test('the SDK exports every type in its signatures, and declares nothing internal', () => {
  const home = join(project.path, 'node_modules/@static')
  const findModule: FindModule = (from, specifier) => {
    if (specifier.startsWith('.')) return resolve(dirname(from), specifier.replace(/\.js$/, '.d.ts'))
    return specifier === '@static/protocol' ? join(home, 'protocol/dist/index.d.ts') : undefined
  }
  const { exports, hidden } = readSurface(join(home, 'sdk/dist/index.d.ts'), findModule)
  assert.deepEqual(hidden, [])
  const channel = exports.find(({ name }) => name === 'Channel')?.members.map(({ name }) => name) ?? []
  assert.ok(channel.includes('send') && !channel.includes('readAhead'), channel.join(' '))
  for (const { path, files } of project.packages) {
    for (const file of files.filter((name) => name.endsWith('.d.ts')))
      assert.doesNotMatch(readFileSync(join(path, file), 'utf8'), /@internal/, file)
  }
})

test('the archive has a command that runs with the Node in it, on a machine that has none', async () => {
  const folder = join(project.path, 'static-archive')
  await assembleArchive({ root: ROOT, packed: join(project.path, 'packed'), node: process.execPath, folder })
  mkdirSync(join(project.path, 'bin'))
  symlinkSync('../static-archive/static', join(project.path, 'bin/static'))
  const env = { HOME: project.path, PATH: `${join(project.path, 'bin')}:/usr/bin:/bin` }
  // All commands, and with them all packages that they load.
  const { stdout, stderr } = await start('bash', ['-c', 'cd / && static --version && static completion bash'], { env })
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
  assert.equal(stdout.split('\n')[0], version, stderr)
  const refused = spawnSync('static', ['relay', '--database', 'postgres://127.0.0.1:1/none?sslmode=disable'], {
    env,
    encoding: 'utf8',
  })
  assert.doesNotMatch(refused.stderr, /Cannot find/)
})

const older = olderNode()
const noOlder = older === undefined && 'this machine has no Node older than 24: install one in PATH to run this'
test('an older Node gets one sentence from the SDK and from the command', { skip: noOlder }, () => {
  const run = (...words: string[]): string => {
    const { status, stderr } = spawnSync(older!, words, { cwd: project.path, encoding: 'utf8' })
    assert.equal(status, 1)
    return stderr
  }
  const said = / needs Node 24 or newer, and this is Node \d+\.\d+\.\d+ \(.*\)/
  for (const entry of ['', '/account', '/driver']) {
    writeFileSync(join(project.path, 'old.mjs'), `import '@static/sdk${entry}'`)
    assert.match(run('old.mjs'), new RegExp(`\\nError: @static/sdk${said.source}\\.\\n`))
  }
  assert.match(
    run('node_modules/.bin/static', 'whoami'),
    new RegExp(`^static${said.source}: install a newer one and .*\\n$`),
  )
})

/** Makes `bare` the project without the package for QUIC. */
function removeQuic(): void {
  mkdirSync(join(bare, 'node_modules/@static'), { recursive: true })
  const modules = join(project.path, 'node_modules')
  for (const name of readdirSync(modules).filter((name) => !['@static', '@currentspace'].includes(name)))
    symlinkSync(join(modules, name), join(bare, 'node_modules', name))
  // Copies, because Node looks for what a package imports beside its real path.
  for (const name of project.sdk)
    cpSync(join(modules, '@static', name), join(bare, 'node_modules/@static', name), { recursive: true })
  writeFileSync(join(bare, 'package.json'), '{"type":"module"}')
}

test('the SDK without QUIC speaks gRPC, and says how to add QUIC where only that will do', async () => {
  const home = workspace.directory('without-quic')
  const env = { PATH: '/usr/bin:/bin', HOME: home, TMPDIR: home }
  const usual = { env, cwd: home, timeout: 60_000 }
  const dataDir = join(home, '.local/share/static/server')
  const program = [process.execPath, join(project.path, 'node_modules/.bin/static')]
  await using server = await startServer({ workspace, dataDir, command: 'up', logLevel: 'silent', program })
  const flags = `--email you@example.com --password-stdin --api-url ${server.url} --relay quic://localhost:${server.relay.quicPort}`
  await start('bash', ['-c', `echo 'choose a good one' | ${program.join(' ')} signup ${flags}`], usual)
  removeQuic()
  writeFileSync(join(bare, 'program.js'), examples[0]!)
  const grpc = { ...usual, env: { ...env, STATIC_GRPC_PORT: String(server.relay.grpcPort) } }
  const { stdout } = await start(process.execPath, [join(bare, 'program.js')], grpc)
  assert.equal(stdout, 'hello\n')
  const only = `
    import { StaticClient } from '@static/sdk'
    await StaticClient.connect({ dataDir: './carol', identity: 'carol', fallback: false }).catch((error) => console.log(error.message))`
  writeFileSync(join(bare, 'only.js'), only)
  const refused = await start(process.execPath, [join(bare, 'only.js')], usual)
  assert.match(refused.stdout, /^QUIC needs the package @static\/quic, which is not installed\. Install it, or /)
})

for (const [name, node] of Object.entries(nodes)) {
  const skip = node === undefined && 'npm could not be reached for it: run this where it can, once'
  test(`the README's examples run with the installed packages on ${name}`, { skip }, async (t) => {
    t.diagnostic(execFileSync(node!, ['--version'], { encoding: 'utf8' }).trim())
    const home = workspace.directory(name.replaceAll(' ', '-'))
    mkdirSync(join(home, 'bin'))
    symlinkSync(node!, join(home, 'bin/node'))
    const path = `${home}/bin:${project.path}/node_modules/.bin:/usr/bin:/bin`
    const { NODE_COMPILE_CACHE } = process.env
    const env = { PATH: path, HOME: home, TMPDIR: home, NODE_COMPILE_CACHE }
    const dataDir = join(home, '.local/share/static/server')
    const program = [node!, join(project.path, 'node_modules/.bin/static')]
    await using server = await startServer({ workspace, dataDir, command: 'up', logLevel: 'silent', program })
    const endpoint = `quic://localhost:${server.relay.quicPort}`

    const page = await start('curl', ['-sS', '--cacert', join(dataDir, 'ca.pem'), `${server.url}/console`])
    assert.match(page.stdout, /<script type="module"/)
    const flags = `--email you@example.com --password-stdin --api-url ${server.url} --relay ${endpoint}`
    await start('bash', ['-c', `echo 'choose a good one' | static signup ${flags}`], { env })

    const loads = modules.map((entry) => `await import('${entry}')`)
    const greeters = [...examples, CLOCKED, [...loads, "console.log('hello')"].join('\n')]
    const printed = [...greeters, DRIVEN].map(async (code, at) => {
      const here = code.replace('quic://localhost:4433', endpoint).replace('https://localhost:8443', server.url)
      const file = join(project.path, `program-${at}-${name.replaceAll(' ', '-')}.js`)
      writeFileSync(file, here)
      const running = start('node', [file], { env, cwd: home, timeout: 120_000 })
      running.child.stdin?.end()
      return (await running).stdout
    })
    assert.deepEqual(await Promise.all(printed), [...greeters.map(() => 'hello\n'), ''])
  })
}
