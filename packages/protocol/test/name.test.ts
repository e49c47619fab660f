import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isChannelName, MAX_NAME_LENGTH, parseChannelName, StaticError } from '../src/index.ts'

const long = 'a'.repeat(63)

const good = ['a/b/c', 'acme/support/routing', '0/1/2', 'a-b/c--d/e-f-g', `${long}/${long}/${long}`, 'a/b/a-0']

const bad = [
  '',
  'a',
  'a/b',
  'a/b/c/d',
  '/b/c',
  'a//c',
  'a/b/',
  '/a/b/c',
  'a/b/c/',
  'A/b/c',
  'a/b/C',
  '-a/b/c',
  'a-/b/c',
  'a/-/c',
  'a/b/c-',
  'a_b/c/d',
  'a b/c/d',
  'a.b/c/d',
  ' a/b/c',
  'a/b/c ',
  'a/b/c\n',
  'a/b/c\0',
  'ä/b/c',
  'а/b/c', // Cyrillic
  'a/b/１', // full width
  'a\\b\\c',
  `${long}a/b/c`,
  `a/b/${long}a`,
  'a/'.repeat(100_000),
]

void test('valid channel names are accepted', () => {
  for (const name of good) {
    assert.ok(isChannelName(name), name)
    assert.equal(parseChannelName(name), name)
  }
  assert.equal(good[4]?.length, MAX_NAME_LENGTH)
})

void test('invalid channel names are channel_error', () => {
  // Callers need not be typed.
  for (const name of [...bad, null, undefined, 5, ['a/b/c']]) {
    assert.ok(!isChannelName(name), String(name))
    assert.throws(
      () => parseChannelName(name as string),
      (error) => error instanceof StaticError && error.code === 'channel_error',
    )
  }
})
