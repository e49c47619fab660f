/** Files on the command line: sent by path, listed, saved by path, and handed to programs. */
import assert from 'node:assert/strict'
import { type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { eventually } from '../support/agents.ts'
import { Person, shows, whereabouts } from './support.ts'

const workspace = await makeWorkspace()
const server = await startServer({
  workspace,
  dataDir: join(workspace.path, 'server'),
  command: 'up',
  relay: { filesPort: 0 },
  settings: { argon2: QUICK['argon2'] },
  logLevel: 'silent',
})
const children: ChildProcess[] = []
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await server.end('SIGTERM')
  workspace[Symbol.dispose]()
})
const CHANNEL = 'acme/support/files'
const ann = new Person(workspace, 'ann', whereabouts(workspace, server))
const at = (name: string): string => join(ann.home, name)
const LISTENS = 240_000

async function ok(line: string): Promise<string> {
  const { code, stdout, stderr } = await ann.shell(line)
  assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  return stdout
}

async function fails(line: string, message: RegExp): Promise<void> {
  const { code, stderr } = await ann.shell(line)
  assert.equal(code, 1, stderr)
  assert.match(stderr, message)
}

async function listen(flags: string): Promise<ChildProcess> {
  const child = ann.start(`exec static channel listen ${CHANNEL} ${flags}`, LISTENS)
  children.push(child)
  await shows(child.stderr!, 'static: listening on')
  return child
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

void test('a file is sent and saved by path, through the process that has the agent open as well', async () => {
  const signup = 'static signup --email ann@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
  await ok(`echo 'a long enough password' | ${signup}`)
  await ok(`static channel create ${CHANNEL} --as alice`)
  const alice = await listen('--as alice')
  await ok(`static channel invite ${CHANNEL} --as alice | static channel join ${CHANNEL} --as bob`)
  const bytes = randomBytes(1_300_000)
  writeFileSync(at('report.pdf'), bytes)
  const sent = await ann.shell(
    `static channel send ${CHANNEL} --as alice --file report.pdf --type application/pdf 'as asked'`,
  )
  assert.equal(sent.code, 0, sent.stderr)
  assert.match(
    sent.stderr,
    /^static: report\.pdf: 1\.2 MiB in 2 parts; costs 3 messages and 1\.3 MiB of the room for files\.$/m,
  )
  const [, id = ''] = /^Sent report\.pdf as file ([0-9a-f]{32})\.\n$/.exec(sent.stdout) ?? []
  const json = JSON.parse(await ok(`static channel send ${CHANNEL} --as alice --file report.pdf --json`)) as Record<
    string,
    unknown
  >
  assert.deepEqual([json['size'], json['parts'], json['messages'], json['room']], [1_300_000, 2, 3, 1_310_776])
  await stop(alice)

  const { files } = JSON.parse(await ok(`static channel files list ${CHANNEL} --as bob --json`)) as {
    files: { id: string; name: string; type: string; size: number }[]
  }
  assert.deepEqual(
    files.map(({ id: own, name, type, size }) => [own === id || own === json['file_id'], name, type, size]),
    [
      [true, 'report.pdf', 'application/pdf', 1_300_000],
      [true, 'report.pdf', '', 1_300_000],
    ],
  )
  await fails(
    `static channel files save ${CHANNEL} report.pdf --as bob`,
    /2 files are called "report\.pdf"\. Pass one of their ids: /,
  )
  await fails(`static channel files save ${CHANNEL} none.pdf --as bob`, /There is no file "none\.pdf" to save\./)
  // The name is taken.
  const saved = JSON.parse(await ok(`static channel files save ${CHANNEL} ${id} --as bob --json`)) as {
    saved: object[]
  }
  assert.deepEqual(saved.saved, [{ id, path: at('report-2.pdf') }])
  assert.deepEqual(readFileSync(at('report-2.pdf')), bytes)
  assert.equal(statSync(at('report-2.pdf')).mode & 0o777, 0o600)
  await fails(
    `static channel files save ${CHANNEL} report.pdf --as bob --to report.pdf`,
    /report\.pdf exists|already exists|is taken/,
  )
  const drop = `static channel files drop ${CHANNEL} --yes --everyone`
  await fails(`${drop} report.pdf --as alice`, /--everyone takes ids, not "report\.pdf"/)
  const other = String(json['file_id'])
  assert.equal((await ann.shell(`${drop} ${other} --as bob`)).code, 3)
  assert.equal(await ok(`${drop} ${other} --as alice`), 'Dropped 1 file.\n')
  assert.equal(await ok(`static channel files drop ${CHANNEL} report.pdf --as bob --yes`), 'Dropped 1 file.\n')
  assert.match((await ann.shell(`static channel files list ${CHANNEL} --as bob`)).stderr, /there is no file to save/)
})

void test('what cannot be sent is refused in one sentence, before anything is sent', async () => {
  mkdirSync(at('folder'))
  symlinkSync('/dev/zero', at('endless'))
  const send = `static channel send ${CHANNEL} --as alice --file`
  await fails(`${send} folder`, /folder is not a regular file\. Pass the path of a file\./)
  await fails(`${send} endless`, /endless is not a regular file\./)
  await fails(`mkfifo pipe; ${send} pipe`, /pipe is not a regular file\./)
  await fails(`${send} missing`, /missing does not exist\./)
  await fails(
    `truncate -s 5G huge; ${send} huge; r=$?; rm huge; exit $r`,
    /huge has 5368709120 bytes; the limit is 4294967296\./,
  )
  await fails(`${send} report.pdf --lines`, /Both --file and --lines/)
  await fails(`static channel send ${CHANNEL} --as alice --type image/png hi`, /--type is given without --file/)
})

void test('listen saves what fits, under safe names, and says where', async () => {
  writeFileSync(at('small.sh'), '#!/bin/sh\n', { mode: 0o755 })
  writeFileSync(at('large.bin'), randomBytes(70_000))
  for (const flags of ["--file small.sh --file-name '../../.profile'", '--file large.bin', '--file small.sh']) {
    await ok(`static channel send ${CHANNEL} --as alice ${flags}`)
  }
  // Those of the first test have come as well.
  const lines = await ok(
    `static channel listen ${CHANNEL} --as bob --save inbox --max-file 64KiB --json --count 5 --timeout 30 | jq -c '[.file.name, .file.path, .file.error.code]'`,
  )
  const shown = lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown[])
  assert.deepEqual(shown.slice(2), [
    ['../../.profile', at('inbox/_.._.profile'), null],
    ['large.bin', null, 'too_large'],
    ['small.sh', at('inbox/small.sh'), null],
  ])
  const names = readdirSync(at('inbox'))
  assert.equal(names.length, 2, String(names))
  for (const name of names) assert.equal(statSync(at(`inbox/${name}`)).mode & 0o777, 0o600)
  assert.ok(!existsSync(at('.profile')))
  // Beyond the limit of the directory, files stay at the relay.
  await ok(`static channel send ${CHANNEL} --as alice --file small.sh`)
  const full = await ann.shell(
    `static channel listen ${CHANNEL} --as bob --save inbox --max-total 25 --count 1 --timeout 30`,
  )
  assert.match(full.stderr, /small\.sh was not saved: .*inbox holds 20 bytes, and --max-total is 25 bytes\./)
  const { files } = JSON.parse(await ok(`static channel files list ${CHANNEL} --as bob --json`)) as {
    files: { name: string }[]
  }
  assert.deepEqual(
    files.map(({ name }) => name),
    ['large.bin', 'small.sh'],
  )
})

void test('a program gets the path and what the sender says of the file, again after a failure', async () => {
  writeFileSync(at('data.csv'), 'a,b\n')
  const script =
    'printf "%s|%s|%s|%s|" "$STATIC_FILE_NAME" "$STATIC_FILE_SIZE" "$STATIC_FILE_TYPE" "$(cat "$STATIC_FILE_PATH")" >> log; cat >> log; echo >> log; test -e tried || { touch tried; exit 1; }'
  writeFileSync(at('take.sh'), script)
  const child = ann.start(`exec static channel listen ${CHANNEL} --as bob --save taken --exec 'sh take.sh'`, LISTENS)
  children.push(child)
  await shows(child.stderr!, 'static: handling messages')
  await ok(`static channel send ${CHANNEL} --as alice --file data.csv --type text/csv 'two columns'`)
  const line = 'data.csv|4|text/csv|a,b|two columns\n'
  await eventually(async () => assert.equal(readFileSync(at('log'), 'utf8'), line + line))
  await stop(child)
  assert.deepEqual(readdirSync(at('taken')), ['data.csv'])
})
