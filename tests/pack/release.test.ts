/** What `npm run release` packs: the same bytes for the same files, and the context of the image. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { bom } from '../../scripts/release/bom.ts'
import { isLeftOut, noticesIn } from '../../scripts/release/bundled.ts'
import { contextFiles } from '../../scripts/release/context.ts'
import { packFiles, packFolder } from '../../scripts/release/tar.ts'
import { ROOT } from './installed.ts'

test('an archive does not depend on the time, the umask, or the order in which its files were made', async (t) => {
  const home = mkdtempSync('/tmp/static-release-')
  t.after(() => rmSync(home, { recursive: true }))
  const archives: Buffer[] = []
  for (const [name, files, mode] of [
    ['one', ['b', 'a', 'c/d'], 0o600],
    ['other', ['c/d', 'a', 'b'], 0o664],
  ] as const) {
    const folder = join(home, name, 'static')
    mkdirSync(join(folder, 'c'), { recursive: true, mode: mode | 0o100 })
    for (const file of files) {
      writeFileSync(join(folder, file), file)
      chmodSync(join(folder, file), file === 'a' ? mode | 0o100 : mode)
      utimesSync(join(folder, file), mode, mode)
    }
    const pack = join(home, `${name}.tar.gz`)
    await packFolder(join(home, name), 'static', pack, 1_700_000_000)
    await packFiles(folder, files, `${pack}.files`, 1_700_000_000)
    archives.push(readFileSync(pack), readFileSync(`${pack}.files`))
  }
  assert.ok(archives[0]!.equals(archives[2]!))
  assert.ok(archives[1]!.equals(archives[3]!))
  const { stdout } = spawnSync('tar', ['-tvzf', join(home, 'other.tar.gz')], { encoding: 'utf8', env: { TZ: 'UTC' } })
  const line = (mode: string, name: string): RegExp =>
    new RegExp(`^${mode} 0/0 .* 2023-11-14 22:13 static/${name}$`, 'm')
  for (const [mode, name] of [
    ['drwxr-xr-x', ''],
    ['-rwxr-xr-x', 'a'],
    ['-rw-r--r--', 'b'],
    ['-rw-r--r--', 'c/d'],
  ] as const)
    assert.match(stdout, line(mode, name))
})

test('the bill of materials names the product, whatever the folder of the clone is called, and what is left out', () => {
  const { metadata, serialNumber, components } = JSON.parse(bom(ROOT)) as {
    metadata: { timestamp?: string; component: { name: string } }
    serialNumber?: string
    components: { name: string; hashes: object[]; pedigree?: { notes: string } }[]
  }
  assert.deepEqual([metadata.component.name, metadata.timestamp, serialNumber], ['static', undefined, undefined])
  const noted = components.filter(({ pedigree }) => pedigree?.notes.startsWith('Bundled without sources'))
  assert.deepEqual(noted.map(({ name }) => name).sort(), ['better-sqlite3-multiple-ciphers', 'sodium-native'])
})

test('a bundled package keeps its licences and what Node loads on any system, and has nothing to compile', () => {
  const left = ['deps/sqlite3/sqlite3.c', 'src', 'src/a.cpp', 'binding.gyp', 'prebuilds/linux-x64/a.bare']
  const kept = ['LICENSE', 'lib/index.js', 'prebuilds/win32-x64.node', 'prebuilds/darwin-arm64/a.node', 'srcset.js']
  assert.deepEqual([...left, 'prebuilds/ios-arm64'].filter(isLeftOut), [...left, 'prebuilds/ios-arm64'])
  assert.deepEqual(kept.filter(isLeftOut), [])
  const source =
    'int a; /* Copyright A */ /* what it does */ int b; /* disclaims copyright */ /* under this\nLicense */ /* Copyright A */'
  assert.equal(noticesIn(source), '/* Copyright A */\n\n/* under this\nLicense */\n')
})

test('the context of the image has what the build needs, by the rules of .dockerignore, and no tests', () => {
  const files = contextFiles(ROOT)
  for (const name of ['deploy/Dockerfile', 'package-lock.json', 'scripts/run.mjs', 'packages/cli/src/main.js'])
    assert.ok(files.includes(name), name)
  for (const name of ['scripts/install.mjs', 'scripts/lock.mjs', 'packages/testkit/package.json', 'deploy/health.mjs'])
    assert.ok(files.includes(name), name)
  const others = files.filter(
    (name) => /test|^lab\/|^docs\/|\.npmrc|compose/.test(name) && name !== 'packages/testkit/package.json',
  )
  assert.deepEqual(others, [])
})
