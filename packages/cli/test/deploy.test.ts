/** The files in deploy/ name only what exists: commands, options, environment variables, metrics, files. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { Command } from 'commander'
import { certificates } from '@static/testkit/certificates'
import { apiCommand } from '../src/commands/api.ts'
import { proxyCommand } from '../src/commands/proxy.ts'
import { relayCommand } from '../src/commands/relay.ts'
import { upCommand } from '../src/commands/up.ts'

const root = resolve(import.meta.dirname, '../../..')
const deploy = join(root, 'deploy')
const files = globSync('**/*', { cwd: deploy, withFileTypes: true }).filter((entry) => entry.isFile())
const textOf = (name: string): string => readFileSync(join(deploy, name), 'utf8')
const all = files.map(({ parentPath, name }) => ({ name, text: readFileSync(join(parentPath, name), 'utf8') }))
const sources = globSync('packages/*/src/**/*.{ts,js}', { cwd: root })
  .map((path) => readFileSync(join(root, path), 'utf8'))
  .join('\n')
const COMMANDS: Record<string, () => Command> = {
  api: apiCommand,
  relay: relayCommand,
  proxy: proxyCommand,
  up: upCommand,
}

// The parser of a library of the API: it is not worth a dependency of its own.
const ofApi = createRequire(pathToFileURL(join(root, 'packages/api/package.json')))
const { parseAllDocuments } = createRequire(ofApi.resolve('@fastify/swagger'))('yaml') as {
  parseAllDocuments: (text: string, options: object) => { errors: Error[]; toJS: (options?: object) => unknown }[]
}

function documentsOf(name: string): unknown[] {
  return parseAllDocuments(textOf(name), { merge: true }).map((document) => {
    assert.deepEqual(document.errors, [], name)
    return document.toJS({ maxAliasCount: 1000 })
  })
}

/** All values of a key, however deep. */
function valuesOf(key: string, value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => [
    ...(name === key && !Array.isArray(value) ? [inner] : []),
    ...valuesOf(key, inner),
  ])
}

/** The commands of `static` in a file, as lists of words. */
function linesOf(name: string): string[][] {
  if (name.endsWith('.service')) {
    const [, line = ''] = /^ExecStart=\S+\/static (.*)$/m.exec(textOf(name)) ?? []
    return [line.split(' ')]
  }
  return [...valuesOf('command', documentsOf(name)), ...valuesOf('args', documentsOf(name))]
    .filter((words): words is string[] => Array.isArray(words) && Object.hasOwn(COMMANDS, String(words[0])))
    .map((words) => words.map(String))
}

describe('every command line that deploy/ starts', () => {
  const lines = ['static.service', 'static-api.service', 'static-relay.service', 'static-proxy.service']
    .concat('compose/compose.yaml', 'kubernetes/api.yaml', 'kubernetes/relay.yaml')
    .flatMap((name) => linesOf(name).map((words) => ({ name, words })))

  test('there are as many as there should be', () => {
    assert.equal(lines.length, 4 + 5 + 2)
  })

  for (const [at, { name, words }] of lines.entries()) {
    test(`${name} (${at + 1}): static ${words[0]} knows its options and gets those that it requires`, () => {
      const [first = '', ...rest] = words
      const command = COMMANDS[first]?.().exitOverride()
      assert.ok(command)
      const { operands, unknown } = command.parseOptions(rest)
      assert.deepEqual([operands, unknown], [[], []])
      const given = command.opts<Record<string, unknown>>()
      for (const option of command.options) {
        if (option.mandatory) assert.notEqual(given[option.attributeName()], undefined, option.flags)
      }
      if (first === 'relay') assert.deepEqual((given['apiInternalUrl'] as string[]).length, 2)
    })
  }
})

test('every relay node of a cluster has a place for files that others share, and its port is open', () => {
  const flagsOf = (name: string): string[] =>
    linesOf(name)
      .filter(([command]) => command === 'relay')
      .flatMap((words) => words.filter((word) => /^--files?-/.test(word)))
  const compose = [5011, 5012, 5013].map((port) => [`--files-port=${port}`, '--file-store=/var/lib/static-files'])
  assert.deepEqual(flagsOf('compose/compose.yaml'), compose.flat())
  const published = valuesOf('ports', documentsOf('compose/compose.yaml')).flat()
  for (const port of [5011, 5012, 5013]) assert.ok(published.includes(`${port}:${port}/tcp`))
  assert.deepEqual(flagsOf('kubernetes/relay.yaml'), ['--file-store=/var/lib/static-files'])
  assert.deepEqual(valuesOf('containerPort', documentsOf('kubernetes/relay.yaml')), [5000, 4433, 5010])
  assert.ok(valuesOf('port', documentsOf('kubernetes/network-policies.yaml')).includes(5010))
  assert.match(textOf('Dockerfile'), /-o static -g static \/var\/lib\/static \/var\/lib\/static-files$/m)
})

test('every YAML file parses', () => {
  const names = globSync('**/*.yaml', { cwd: deploy })
  assert.ok(names.length >= 9)
  for (const name of names) assert.ok(documentsOf(name).length > 0, name)
})

test('every environment variable of ours is read by a server or a script', () => {
  const known = `${sources}\n${textOf('health.mjs')}`
  const named = new Set(all.flatMap(({ text }) => text.match(/\bSTATIC_[A-Z_]+/g) ?? []))
  assert.ok(named.has('STATIC_DATABASE'))
  for (const name of named) assert.ok(known.includes(name), name)
})

test('every metric in alerts and in the operator’s pages exists', () => {
  const pages = ['06-self-hosting.md', '07-several-nodes.md'].map((name) =>
    readFileSync(join(root, 'docs', name), 'utf8'),
  )
  const texts = [textOf('prometheus/alerts.yaml'), textOf('prometheus/alerts.test.yaml'), ...pages]
  const named = new Set(texts.flatMap((text) => text.match(/\bstatic_(api|relay)_[a-z0-9_]+[a-z0-9]\b/g) ?? []))
  assert.ok(named.size > 15)
  for (const name of named) {
    const bare = name.replace(/_(bucket|count|sum)$/, '')
    const isRole = ['static_api', 'static_relay'].includes(bare)
    assert.ok(isRole || sources.includes(`'${bare}'`), name)
  }
})

test('every file of ours that another one names exists', () => {
  const named = all.flatMap(({ text }) => text.match(/\b(?:deploy|docs)\/[\w./-]+\.\w+/g) ?? [])
  assert.ok(named.includes('deploy/health.mjs'))
  for (const path of named) assert.ok(existsSync(join(root, path)), path)
  for (const [, path = ''] of textOf('compose/compose.yaml').matchAll(/(?:\[|- |, )(\.{1,2}\/[\w./-]+):\//g)) {
    if (!path.startsWith('./secrets')) assert.ok(existsSync(join(deploy, 'compose', path)), path)
  }
})

test('the image runs as the user that owns the keys, without root', () => {
  const image = textOf('Dockerfile')
  assert.match(image, /^USER 10001:10001$/m)
  assert.match(image, /^HEALTHCHECK .*deploy\/health\.mjs/m)
  const users = ['kubernetes/api.yaml', 'kubernetes/relay.yaml'].flatMap((name) =>
    valuesOf('runAsUser', documentsOf(name)),
  )
  assert.deepEqual(users, [10_001, 10_001])
  assert.match(textOf('compose/prepare.sh'), /chown -R 10001:10001/)
})

test('no image is named by a tag, which could be moved to another image', () => {
  assert.match(textOf('Dockerfile'), /^ARG BASE$/m)
  for (const [, image = ''] of textOf('Dockerfile').matchAll(/^FROM (\S+)/gm)) assert.equal(image, '${BASE}')
  for (const image of valuesOf('image', documentsOf('compose/compose.yaml'))) {
    assert.match(String(image), /^(static|\$\{[A-Z]+_IMAGE:\?run prepare\.sh\})$/)
  }
  const [kustomization] = documentsOf('kubernetes/kustomization.yaml') as [
    { images: { name: string; digest: string }[] },
  ]
  const byDigest = kustomization.images.map(({ name, digest }) => (digest.startsWith('sha256:') ? name : ''))
  for (const file of globSync('kubernetes/*.yaml', { cwd: deploy })) {
    for (const image of valuesOf('image', documentsOf(file)))
      assert.ok(byDigest.includes(String(image)), `${file}: ${String(image)}`)
  }
})

test('no server leaves a dump of its memory, and no password is on a command line', () => {
  for (const { name } of files.filter((file) => file.name.endsWith('.service'))) {
    assert.match(textOf(name), /^LimitCORE=0$/m, name)
  }
  assert.deepEqual(new Set(valuesOf('core', documentsOf('compose/compose.yaml'))), new Set([0]))
  for (const { name, text } of all) assert.doesNotMatch(text, /-v \w*password=|--password[= ]/, name)
})

interface Policy {
  readonly spec: {
    readonly podSelector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly policyTypes: readonly string[]
    readonly ingress?: readonly Rule[]
    readonly egress?: readonly Rule[]
  }
}

interface Rule {
  readonly ports: readonly { readonly port: number }[]
  readonly from?: readonly object[]
  readonly to?: readonly object[]
}

test('the policies of Kubernetes limit both ways what they claim to limit', () => {
  const policies = documentsOf('kubernetes/network-policies.yaml') as Policy[]
  const of = (label: string): Policy['spec'] => {
    const found = policies.find(({ spec }) => Object.values(spec.podSelector.matchLabels).includes(label))
    assert.ok(found, label)
    return found.spec
  }
  const ports = (rules: readonly Rule[] = []): number[] =>
    [...new Set(rules.flatMap((rule) => rule.ports.map(({ port }) => port)))].sort((a, b) => a - b)
  assert.deepEqual(of('static-api').policyTypes, ['Ingress', 'Egress'])
  assert.deepEqual(ports(of('static-api').egress), [53, 5432])
  assert.deepEqual(of('static-relay').policyTypes, ['Ingress', 'Egress'])
  assert.deepEqual(ports(of('static-relay').egress), [53, 4222, 5432, 8443, 8444])
  assert.deepEqual([of('nats').policyTypes, of('nats').egress], [['Ingress', 'Egress'], undefined])
  assert.deepEqual(ports(of('static-postgres').ingress), [5432, 8000])
  // Each rule of these names its peers; only what the public reaches is open to all.
  const rules = ['static-api', 'static-relay', 'nats', 'static-postgres'].map(of)
  for (const rule of rules.flatMap(({ egress = [] }) => egress)) assert.ok(rule.to?.length)
  const open = rules.flatMap(({ ingress = [] }) => ingress.filter(({ from }) => from === undefined))
  assert.deepEqual(ports(open), [4433, 5000, 5010, 8443])
})

test('keys that lie in the checkout get neither into the image nor into git', () => {
  const patterns = readFileSync(join(root, '.dockerignore'), 'utf8').match(/^[^#\n]+$/gm) ?? []
  // Everything is left out unless it is listed, and of deploy/ only the health check is.
  assert.equal(patterns[0], '*')
  assert.deepEqual(
    patterns.filter((pattern) => pattern.includes('deploy')),
    ['!deploy/health.mjs'],
  )
  assert.match(textOf('compose/prepare.sh'), /mkdir secrets /)
  assert.match(readFileSync(join(root, '.gitignore'), 'utf8'), /^deploy\/compose\/secrets\/$/m)
})

test('no secret is in the environment of a process', () => {
  for (const { name, text } of all) {
    if (name.endsWith('.test.yaml')) continue
    assert.doesNotMatch(text, /env_file|EnvironmentFile|envFrom|secretKeyRef/, name)
  }
  const { text = '' } = all.find(({ name }) => name === 'prepare.sh') ?? {}
  for (const file of ['database.url', 'nats.url']) {
    assert.ok(text.includes(file) && textOf('kubernetes/secrets.sh').includes(`put ${file} `), file)
    const named = textOf('compose/compose.yaml').includes(`/var/lib/static/${file}`)
    assert.ok(named && textOf('kubernetes/relay.yaml').includes(`/var/lib/static/data/${file}`), file)
  }
})

test('every service has a user of its own, which systemd-sysusers creates', () => {
  const units = files.filter(({ name }) => name.endsWith('.service')).map(({ name }) => textOf(name))
  const users = units.map((unit) => /^User=(\S+)$/m.exec(unit)?.[1] ?? '')
  assert.equal(new Set(users).size, units.length)
  for (const user of users) assert.match(textOf('static.sysusers'), new RegExp(`^u ${user} `, 'm'))
  for (const [at, unit] of units.entries()) {
    assert.match(unit, new RegExp(`^Group=${users[at]}$`, 'm'))
    if (users[at] !== 'static') assert.match(unit, /^SupplementaryGroups=static$/m)
  }
})

test('a lost database ends no process: what restarts one asks only whether it runs', () => {
  for (const name of ['kubernetes/api.yaml', 'kubernetes/relay.yaml']) {
    const documents = documentsOf(name)
    for (const probe of ['startupProbe', 'livenessProbe']) {
      const paths = valuesOf('path', valuesOf(probe, documents)[0])
      assert.deepEqual(paths, ['/health/live'], `${name}: ${probe}`)
    }
    assert.deepEqual(valuesOf('path', valuesOf('readinessProbe', documents)[0]), ['/health/ready'])
  }
})

test('every script is a valid script of sh', () => {
  const names = globSync('**/*.sh', { cwd: deploy })
  assert.ok(names.length >= 6)
  for (const name of names) assert.equal(spawnSync('sh', ['-n', join(deploy, name)]).status, 0, name)
})

const promtool = ['/usr/bin/promtool', '/usr/local/bin/promtool'].find((path) => existsSync(path))
test('Prometheus accepts the alerts, and they fire when they should', { skip: promtool === undefined }, () => {
  for (const words of [
    ['check', 'rules', 'alerts.yaml'],
    ['test', 'rules', 'alerts.test.yaml'],
  ]) {
    const { status, stderr } = spawnSync(promtool ?? '', words, { cwd: join(deploy, 'prometheus'), encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  }
})

test('the health check passes and fails with the server, and asks no other machine', async (t) => {
  const { certificate } = await certificates()
  let status = 200
  const server = createServer({ ...certificate }, (_request, response) => response.writeHead(status).end())
  t.after(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const check = async (host: string): Promise<unknown> => {
    const STATIC_HEALTH_URL = `https://${host}:${(server.address() as AddressInfo).port}/health`
    const env = { ...process.env, STATIC_HEALTH_URL }
    const child = spawn(process.execPath, [join(deploy, 'health.mjs')], { env, stdio: 'ignore' })
    return (await once(child, 'exit'))[0]
  }
  assert.equal(await check('127.0.0.1'), 0)
  status = 503
  assert.equal(await check('127.0.0.1'), 1)
  assert.equal(await check('db.example.com'), 2)
})
