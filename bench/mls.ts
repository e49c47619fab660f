/**
 * What MLS costs. Messages: as a ratio to the floor of one signature and one AEAD over the same bytes, in the same
 * process, with libsodium and without it. Groups: milliseconds of CPU and bytes by size, without targets.
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

interface Messages {
  readonly backEnd: 'libsodium' | 'node:crypto'
  readonly groups: readonly {
    readonly size: number
    readonly ratios: Readonly<Record<'encrypt' | 'decrypt', number>>
    readonly microseconds: Readonly<Record<'encrypt' | 'decrypt', number>>
    readonly ciphertextBytes: number
  }[]
}

interface Operations {
  readonly size: number
  readonly milliseconds: Readonly<Record<string, number>>
  readonly bytes: Readonly<Record<string, number>>
}

const TARGETS = {
  'node:crypto': { encrypt: 1.7, decrypt: 1.5 },
  libsodium: { encrypt: 1.8, decrypt: 1.8 },
} as const

function child(script: string, ...flags: string[]): unknown {
  const path = join(import.meta.dirname, 'mls', script)
  const { status, stdout } = spawnSync(process.execPath, [...flags, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`${script} failed`)
  return JSON.parse(stdout)
}

const withoutSodium = ['--import', join(import.meta.dirname, 'mls/without-sodium.ts')]
const messages = [child('messages.ts'), child('messages.ts', ...withoutSodium)] as Messages[]
for (const { backEnd, groups } of messages) {
  for (const { size, ratios, microseconds, ciphertextBytes } of groups) {
    for (const kind of ['encrypt', 'decrypt'] as const) {
      const target = TARGETS[backEnd][kind]
      const met = ratios[kind] <= target
      if (!met) process.exitCode = 1
      console.log(
        `1 KiB, ${size} members, ${backEnd}: ${kind} ${ratios[kind].toFixed(2)}× the floor ` +
          `(${microseconds[kind].toFixed(0)} µs, ${ciphertextBytes} bytes); target ≤ ${target}× ${met ? 'met' : 'MISSED'}`,
      )
    }
  }
}
if (messages[0]?.backEnd !== 'libsodium') console.log('libsodium does not load on this machine.')

const operations = child('operations.ts') as Operations[]
for (const { size, milliseconds, bytes } of operations) {
  const list = (values: Readonly<Record<string, number>>, digits: number): string =>
    Object.entries(values)
      .map(([name, value]) => `${name} ${value.toFixed(digits)}`)
      .join(', ')
  console.log(`${size} members, ms of CPU: ${list(milliseconds, 1)}`)
  console.log(`${size} members, bytes: ${list(bytes, 0)}`)
}
const record = { node: process.version, TARGETS, messages, operations }
writeFileSync(join(import.meta.dirname, 'results/mls.json'), `${JSON.stringify(record, null, 2)}\n`)
