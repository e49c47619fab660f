/** Paths that cannot be sent or saved, files that change on their way, full disks and cancelled calls: a code, and no half file. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import fs, { open } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { CrashingPorts } from '@static/testkit/crash/agent-ports'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import type { ReceivedFile } from '../../src/public/received/received-file.ts'
import { type AgentOptions, code, NAME, take, takeEnvelope, TestSystem } from '../support/test-system.ts'
import { makeFileDisk } from '../../src/store/file-disk.ts'
import { directoryFor, MIB } from './support.ts'

interface Scene {
  readonly world: TestSystem
  readonly alice: StaticClient
  readonly a: Channel
  readonly b: Channel
  readonly bob: StaticClient
  readonly directory: string
  readonly path: string
  readonly bytes: Buffer
}

async function sceneFor(t: TestContext, sender: AgentOptions = {}): Promise<Scene> {
  const world = await TestSystem.start(t, 'quic', { files: true })
  const alice = await world.agent('alice', sender)
  const bob = await world.agent('bob')
  const [a, b] = await world.channel(alice, [bob])
  const directory = directoryFor(t)
  const path = join(directory, 'sent')
  const bytes = randomBytes(2 * MIB + 3)
  writeFileSync(path, bytes)
  return { world, alice, bob, a: a!, b: b!, directory, path, bytes }
}

const invalid = (words: RegExp): ReturnType<typeof code> => code('invalid_request', words)

/** Nothing has arrived but this text. */
async function nothingBut(a: Channel, b: Channel): Promise<void> {
  await a.send('the end')
  assert.deepEqual(await take(b, 1), ['the end'])
  assert.deepEqual(b.files(), [])
}

test('what is no regular file that can be read is refused, with one sentence', async (t) => {
  const { a, b, directory, path } = await sceneFor(t)
  const pipe = join(directory, 'pipe')
  await promisify(execFile)('mkfifo', ['-m', '600', pipe])
  await assert.rejects(a.sendFile(directory), invalid(/is a directory. Only regular files can be sent.$/))
  await assert.rejects(a.sendFile(pipe), invalid(/is a pipe/))
  await assert.rejects(a.sendFile('/dev/null'), invalid(/is a device/))
  await assert.rejects(a.sendFile(join(directory, 'missing')), invalid(/^There is no file .*missing.$/))
  if (process.geteuid?.() !== 0) {
    chmodSync(path, 0)
    await assert.rejects(a.sendFile(path), invalid(/permission denied/))
  }
  const wrong: readonly unknown[] = [undefined, 7, new Uint8Array(4), { path }]
  for (const source of wrong) await assert.rejects(a.sendFile(source as string), invalid(/path or a stream/))
  await assert.rejects(a.sendFile(Readable.from(['text'])), invalid(/bytes/))
  const failing = async function* (): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(10)
    throw new Error('the source has failed')
  }
  await assert.rejects(a.sendFile(failing()), /the source has failed/)
  await assert.rejects(a.sendFile(path, { name: '' }), invalid(/name/))
  await assert.rejects(a.sendFile(path, { name: 'x'.repeat(1025) }), code('too_large'))
  await assert.rejects(a.sendFile(path, { text: 'x'.repeat(65_537) }), code('too_large'))
  await assert.rejects(a.sendFile(path, { type: 'text/\n' }), invalid(/type/))
  await assert.rejects(a.sendFile(path, { nmae: 'x' } as object), invalid(/nmae/))
  await nothingBut(a, b)
})

test('a file that grows, shrinks or is written to while it is sent does not arrive; nor does a cancelled one', async (t) => {
  const { a, b, path, bytes } = await sceneFor(t)
  const later = new Date(Date.now() + 10_000)
  const writes: Readonly<Record<string, () => void>> = {
    grows: () => appendFileSync(path, 'more'),
    shrinks: () => truncateSync(path, 10),
    'is written to': () => {
      writeFileSync(path, bytes.toReversed())
      utimesSync(path, later, later)
    },
  }
  for (const [about, write] of Object.entries(writes)) {
    writeFileSync(path, bytes)
    await assert.rejects(a.sendFile(path, { progress: write }), code('file_changed', /Nothing was sent/), about)
  }
  writeFileSync(path, bytes)
  const stop = new AbortController()
  await assert.rejects(a.sendFile(path, { signal: AbortSignal.abort() }), code('cancelled'))
  await assert.rejects(a.sendFile(path, { signal: stop.signal, progress: () => stop.abort() }), code('cancelled'))
  const never = new ReadableStream<Uint8Array>()
  const late = AbortSignal.timeout(20)
  await assert.rejects(a.sendFile(never, { signal: late }), code('cancelled'))
  const thrown = new Error('of the program')
  const progress = (): void => {
    throw thrown
  }
  await assert.rejects(a.sendFile(path, { progress }), thrown)
  await nothingBut(a, b)
  // None of them is in the way.
  for (let n = 0; n < 10; n++) {
    const stopped = new AbortController()
    const options = { signal: stopped.signal, progress: () => stopped.abort() }
    await assert.rejects(a.sendFile(path, options), code('cancelled'))
  }
  await a.sendFile(path)
})

test('a file that has changed since a crash is not sent; the next call sends it as it is', async (t) => {
  const ports = new CrashingPorts()
  const { world, alice, a, b, path, bytes } = await sceneFor(t, ports.options)
  // The first part is at the relay, and the agent dead.
  ports.mark(undefined)
  const died = new AbortController()
  const dying = a.sendFile(path, {
    progress: () => {
      const part = ports.calls.indexOf('part')
      assert.ok(part >= 0)
      ports.mark({ call: 1, moment: 'before' })
    },
    signal: died.signal,
  })
  await Promise.race([ports.died, dying.catch(() => {})])
  dying.catch(() => {})
  await alice.close().catch(() => {})
  bytes[5]! ^= 1
  writeFileSync(path, bytes)
  const again = (await world.agent('alice')).channel(NAME)
  await assert.rejects(again.sendFile(path), code('file_changed', /part 0|shorter/))
  await again.sendFile(path)
  const { file = assert.fail() } = await takeEnvelope(b)
  assert.equal(Buffer.concat(await Array.fromAsync(file.stream())).compare(bytes), 0)
})

test('nothing is overwritten, and what is in the way is named', async (t) => {
  const { a, b, directory, path, bytes } = await sceneFor(t)
  const next = async (name: string): Promise<ReceivedFile> => {
    await a.sendFile(path, { name })
    return (await takeEnvelope(b)).file ?? assert.fail()
  }
  let file = await next('../../evil\u202Etxt.exe')
  const targets = join(directory, 'targets')
  mkdirSync(targets)
  await assert.rejects(file.save(path), invalid(/already exists, and is not overwritten/))
  await assert.rejects(file.save(join(directory, 'none', 'x')), invalid(/There is no directory/))
  await assert.rejects(file.save(join(directory, 'none/')), invalid(/There is no directory/))
  await assert.rejects(file.save(''), invalid(/path/))
  const linked = join(directory, 'linked')
  symlinkSync(path, `${linked}.part`)
  await assert.rejects(file.save(linked), invalid(/linked.part/))
  symlinkSync(join(directory, 'elsewhere'), linked)
  await assert.rejects(file.save(linked), invalid(/linked already exists/))
  writeFileSync(join(directory, 'busy.part'), 'of another program')
  await assert.rejects(file.save(join(directory, 'busy')), invalid(/busy.part already exists/))
  assert.equal(readFileSync(join(directory, 'busy.part'), 'utf8'), 'of another program')
  assert.equal(readFileSync(path).compare(bytes), 0)
  // What appears under the name while it is being saved stays as well.
  const raced = join(directory, 'raced')
  const race = (done: number): void => {
    if (done === bytes.length) writeFileSync(raced, 'first')
  }
  await assert.rejects(file.save(raced, { progress: race }), invalid(/raced already exists/))
  assert.equal(readFileSync(raced, 'utf8'), 'first')
  assert.equal(await file.save(targets), join(targets, '_.._evil_txt.exe'))
  assert.ok(!existsSync(join(directory, 'elsewhere')))
  for (const number of ['', '-2', '-3']) {
    file = await next('report.pdf')
    assert.equal(await file.save(targets), join(targets, `report${number}.pdf`))
  }
  assert.ok(readdirSync(targets).every((name) => !name.endsWith('.part')))
})

test('files of one name that are saved at once never share a file on disk', async (t) => {
  const { a, b, directory, path } = await sceneFor(t)
  const targets = join(directory, 'targets')
  mkdirSync(targets)
  const sent = new Map<string, Buffer>()
  const receive = async (): Promise<ReceivedFile> => {
    const bytes = randomBytes(MIB + 9)
    writeFileSync(path, bytes)
    sent.set((await a.sendFile(path, { name: 'report.pdf' })).fileId, bytes)
    return (await takeEnvelope(b)).file ?? assert.fail()
  }
  const isWhole = (file: ReceivedFile, at: string): boolean => readFileSync(at).equals(sent.get(file.id)!)
  const files = [await receive(), await receive(), await receive()]
  const saved = await Promise.all(files.map((file) => file.save(targets)))
  for (const [index, file] of files.entries()) assert.ok(isWhole(file, saved[index]!), `file ${index}`)
  assert.deepEqual(
    saved.toSorted(),
    ['report-2.pdf', 'report-3.pdf', 'report.pdf'].map((name) => join(targets, name)),
  )
  const [one, two] = [await receive(), await receive()]
  const only = join(directory, 'only')
  const results = await Promise.allSettled([one.save(only), two.save(only)])
  const lost = results.findIndex(({ status }) => status === 'rejected')
  const [winner, loser] = lost === 0 ? [two, one] : [one, two]
  assert.deepEqual(results[1 - lost], { status: 'fulfilled', value: only })
  assert.match(String((results[lost] as PromiseRejectedResult).reason), /only(\.part)? already exists/)
  assert.ok(isWhole(winner, only))
  assert.equal(await loser.save(targets), join(targets, 'report-4.pdf'))
  assert.ok(isWhole(loser, join(targets, 'report-4.pdf')))
  assert.ok([...readdirSync(targets), ...readdirSync(directory)].every((name) => !name.endsWith('.part')))
})

test('what a crash has left is used again, but not while it is being saved', async (t) => {
  const directory = directoryFor(t)
  const disk = makeFileDisk(directory)
  const path = join(directory, 'report.pdf')
  const first = (await disk.openTarget(path, false)) ?? assert.fail()
  assert.equal(await disk.openTarget(path, true), undefined)
  assert.equal(await disk.reopenTarget(path, first.identity), undefined)
  await disk.discard(path, first.identity)
  await first.write(Buffer.from('half'), 0)
  await first.close()
  // With content, only the save that has made it goes on with it.
  assert.equal(await disk.openTarget(path, true), undefined)
  const again = (await disk.reopenTarget(path, first.identity)) ?? assert.fail()
  await again.close()
  await disk.discard(path, first.identity)
  writeFileSync(`${path}.part`, '')
  assert.equal(await disk.openTarget(path, false), undefined)
  await assert.rejects(disk.chooseTarget(path, ''), invalid(/report.pdf.part already exists/))
  const left = (await disk.openTarget(path, true)) ?? assert.fail()
  await left.write(Buffer.from('whole'), 0)
  await left.finish(5)
  await left.close()
  assert.equal(readFileSync(path, 'utf8'), 'whole')
})

test('on a disk without links, a crash leaves no empty file under the name, and nothing is overwritten', async (t) => {
  const directory = directoryFor(t)
  const disk = makeFileDisk(directory)
  const failing = (name: 'link' | 'rename', code: string) => {
    const mocked = t.mock.method(fs, name, () => Promise.reject(Object.assign(new Error(name), { code })))
    syncBuiltinESMExports()
    t.after(() => {
      mocked.mock.restore()
      syncBuiltinESMExports()
    })
    return mocked
  }
  failing('link', 'EPERM')
  const path = join(directory, 'report.pdf')
  const target = (await disk.openTarget(path, false)) ?? assert.fail()
  await target.write(Buffer.from('whole'), 0)
  const crash = failing('rename', 'EIO')
  await assert.rejects(target.finish(5), invalid(/cannot be written/))
  await target.close()
  assert.ok(!existsSync(path))
  crash.mock.restore()
  syncBuiltinESMExports()
  const again = (await disk.reopenTarget(path, target.identity)) ?? assert.fail()
  writeFileSync(path, 'of another program')
  await assert.rejects(again.finish(5), invalid(/report.pdf already exists/))
  assert.equal(readFileSync(path, 'utf8'), 'of another program')
  unlinkSync(path)
  await again.finish(5)
  await again.close()
  assert.equal(readFileSync(path, 'utf8'), 'whole')
})

test('a full disk, a cancelled call and a restart: saving goes on where it stopped, and a dropped file is gone', async (t) => {
  const { world, a, b, bob, directory, path } = await sceneFor(t)
  const bytes = randomBytes(18 * MIB)
  writeFileSync(path, bytes)
  await a.sendFile(path)
  const { file = assert.fail() } = await takeEnvelope(b)
  const target = join(directory, 'target')
  const handle = await open(path)
  const proto = Object.getPrototypeOf(handle) as { write: (...args: unknown[]) => Promise<unknown> }
  await handle.close()
  const full = t.mock.method(proto, 'write', () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })))
  await assert.rejects(file.save(target), invalid(/the disk is full/))
  full.mock.restore()
  const stop = new AbortController()
  const seen: number[] = []
  const cut = (done: number): void => {
    seen.push(done)
    if (done === 17 * MIB) stop.abort()
  }
  await assert.rejects(file.save(target, { signal: stop.signal, progress: cut }), code('cancelled'))
  assert.ok(!existsSync(target) && existsSync(`${target}.part`))
  await bob.close()
  const gets: string[] = []
  const again = await world.agent('bob', {
    files: (files) => ({
      ...files,
      line: {
        ...files.line,
        get: (request, length) => {
          gets.push(request.path)
          return files.line.get(request, length)
        },
      },
    }),
  })
  const [listed = assert.fail()] = again.channel(NAME).files()
  assert.deepEqual([listed.id, listed.size, listed.sender.agentId], [file.id, bytes.length, file.sender.agentId])
  assert.equal(await listed.save(target), target)
  // Of 20 parts, 16 were on disk for good.
  assert.equal(gets.length, 4)
  assert.equal(readFileSync(target).compare(bytes), 0)
  writeFileSync(path, 'short')
  await a.sendFile(path)
  const dropped = (await takeEnvelope(again.channel(NAME))).file ?? assert.fail()
  await dropped.drop()
  assert.deepEqual(again.channel(NAME).files(), [])
  await assert.rejects(dropped.save(join(directory, 'x')), code('file_expired'))
  // Its sender takes one back.
  const { fileId } = await a.sendFile(path)
  const { file: taken = assert.fail() } = await takeEnvelope(again.channel(NAME))
  await assert.rejects(again.channel(NAME).deleteFile(fileId), code('not_allowed'))
  await a.deleteFile(fileId)
  await assert.rejects(taken.save(join(directory, 'x')), code('file_expired'))
  assert.deepEqual(again.channel(NAME).files(), [])
  await again.close()
})
