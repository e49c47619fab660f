/** Processes of one account that change its trust list, and what is known of keys, at the same time. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { StaticError } from '@static/protocol'
import { alone } from '../../src/account/trust/lock.ts'
import { TrustStore } from '../../src/account/trust/store.ts'
import { NO_KEYS } from '../../src/proofs/key-state.ts'
import { parseRoot } from '../../src/proofs/roots.ts'

const home = mkdtempSync(join(tmpdir(), 'static-trust-lock-'))
after(() => rmSync(home, { recursive: true, force: true }))
const source = (name: string): string => JSON.stringify(join(import.meta.dirname, '../../src', name))

/** A process that runs some code once it is told to. */
function child(code: string): ChildProcess {
  const waiting = `process.stdout.write('ready'); await new Promise((done) => process.stdin.once('data', done));`
  const imports = `import { TrustStore } from ${source('account/trust/store.ts')}
    import { alone } from ${source('account/trust/lock.ts')}
    import { parseRoot } from ${source('proofs/roots.ts')}\n`
  const words = ['--input-type=module', '-e', `${imports}${waiting}${code};process.stdin.destroy()`]
  return spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] })
}

async function begin(...children: readonly ChildProcess[]): Promise<void> {
  await Promise.all(children.map((each) => once(each.stdout ?? assert.fail(), 'data')))
  for (const each of children) each.stdin?.write('go')
}

test('what one process learns of a root is not lost to another', async () => {
  const directory = join(home, 'both')
  const code = (name: string): string => `
    const store = new TrustStore(${JSON.stringify(directory)})
    for (let count = 0; count < 40; count++) {
      store.update(parseRoot('github:acme/*'), (state) => ({ ...state, ids: { ...state.ids, ['${name}' + count]: '1' } }))
      store.change((list) => [...list, { root: parseRoot('${name}' + count + '.example') }])
    }`
  const children = [child(code('one')), child(code('two'))]
  const ended = children.map((each) => once(each, 'exit'))
  await begin(...children)
  assert.deepEqual(await Promise.all(ended), [
    [0, null],
    [0, null],
  ])
  const store = new TrustStore(directory)
  assert.equal(Object.keys(store.load(parseRoot('github:acme/*')).ids).length, 80)
  assert.equal(store.list().length, 80)
  assert.equal(statSync(join(directory, 'lock')).mode & 0o777, 0o600)
  assert.deepEqual(
    readdirSync(directory).filter((name) => !/^(?:lock|roots\.json|keys-.*\.json)$/.test(name)),
    [],
  )
})

test('a process that is killed leaves no lock behind, and one that hangs is not waited for long', async () => {
  const lock = join(home, 'lock')
  const holder = child(`
    alone(${JSON.stringify(lock)}, () => {
      process.stdout.write('held')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`)
  await begin(holder)
  await once(holder.stdout ?? assert.fail(), 'data')
  const isLocked = (error: unknown): boolean => error instanceof StaticError && error.code === 'store_locked'
  assert.throws(() => alone(lock, () => assert.fail('both')), isLocked)
  const gone = once(holder, 'exit')
  holder.kill('SIGKILL')
  await gone
  let runs = 0
  alone(lock, () => runs++)
  assert.throws(() => alone(lock, () => assert.fail('wrong')), /wrong/)
  alone(lock, () => runs++)
  assert.equal(runs, 2)
})

test('a change of the keys does not look like another one', () => {
  const store = new TrustStore(join(home, 'version'))
  store.update(parseRoot('acme.example'), () => NO_KEYS)
  const version = store.version()
  alone(join(home, 'version', 'lock'), () => {})
  assert.equal(store.version(), version)
})
