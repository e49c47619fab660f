/** Every link, path and command word of the documentation leads somewhere. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { anchorsOf, linksOf, pages, proseOf, read, ROOT } from './markdown.ts'

const others = readdirSync(ROOT).filter((name) => name.endsWith('.md') && name !== 'README.md')
const reference = readdirSync(join(ROOT, 'docs/reference')).map((name) => `docs/reference/${name}`)
const all = [
  ...pages(),
  ...reference,
  ...others,
  ...(existsSync(join(ROOT, 'bench/README.md')) ? ['bench/README.md'] : []),
]

test('every relative link points to a file, and to a heading in it', () => {
  const broken = all.flatMap((page) =>
    linksOf(page)
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => {
        const [path = '', anchor] = target.split('#')
        const file = path === '' ? page : relative(ROOT, resolve(ROOT, page, '..', path))
        if (!existsSync(join(ROOT, file))) return true
        return anchor !== undefined && !(file.endsWith('.md') && anchorsOf(file).has(anchor))
      })
      .map((target) => `${page}: ${target}`),
  )
  assert.deepEqual(broken, [])
})

test('every path of this checkout that is named exists', () => {
  const broken = all.flatMap((page) => {
    const named = [
      ...proseOf(page).matchAll(/`((?:packages|tests|bench|scripts|docs|examples|python)\/[\w./*{},-]+)`/g),
    ]
    return named
      .map(([, path = '']) => path)
      .filter((path) => !/[*{]/.test(path) && !existsSync(join(ROOT, path)))
      .map((path) => `${page}: ${path}`)
  })
  assert.deepEqual(broken, [])
})

test('every npm script that is named exists in this checkout', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object }
  for (const page of all) {
    for (const [, word = ''] of read(page).matchAll(/\bnpm run ([\w:]+)/g)) assert.ok(word in scripts, word)
    for (const [, word = ''] of read(page).matchAll(/`npm ([a-z]+)/g)) {
      assert.ok(['run', 'ci', 'install', 'pack'].includes(word) || word in scripts, `${page}: npm ${word}`)
    }
  }
})

test('every page of docs is in its list, and every example in one of the pages', () => {
  const listed = linksOf('docs/README.md')
  for (const page of pages().filter((name) => name.startsWith('docs/') && name !== 'docs/README.md')) {
    assert.ok(listed.includes(page.slice('docs/'.length)), page)
  }
  const text = pages().map(read).join('\n')
  for (const name of readdirSync(join(ROOT, 'examples'))) assert.ok(text.includes(`examples/${name}`), name)
})

test("no page says to join from another machine with npx, which would run a stranger's package there", () => {
  const told = all.flatMap((page) =>
    read(page)
      .split('\n')
      // Both agents are in this checkout.
      .filter((line) => /npx static.*\bjoin\b/.test(line) && !line.startsWith('npx static channel invite '))
      .map((line) => `${page}: ${line}`),
  )
  assert.deepEqual(told, [])
})
