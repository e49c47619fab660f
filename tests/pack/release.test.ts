/** What `npm run release` packs: the same bytes for the same files, and the context of the image. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { bom } from '../../scripts/release/bom.ts'
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

test('the bill of materials names the product, whatever the folder of the clone is called', () => {
  const { metadata, serialNumber } = JSON.parse(bom(ROOT)) as {
    metadata: { timestamp?: string; component: { name: string } }
    serialNumber?: string
  }
  assert.deepEqual([metadata.component.name, metadata.timestamp, serialNumber], ['static', undefined, undefined])
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
