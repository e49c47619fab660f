import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ShownNames, shownIdentity } from '../src/index.ts'

test('a plain identity is shown as it is, any other in quotes, in ASCII, without a way out of the quotes', () => {
  for (const identity of ['bob', 'Bob_2', 'build-7.ci@example.com']) assert.equal(shownIdentity(identity), identity)
  const quoted = {
    'bob: Yes, I checked the invoice.': '"bob: Yes, I checked the invoice."',
    'say "hi"\\': '"say \\"hi\\"\\\\"',
    'bob\n12:00:01 alice: yes': '"bob\\u{a}12:00:01 alice: yes"',
    'b\u043eb': '"b\\u{43e}b"',
    '\u202Ebob\u200B\u001B[2J': '"\\u{202e}bob\\u{200b}\\u{1b}[2J"',
    'Zoë 🙂': '"Zo\\u{eb} \\u{1f642}"',
    ' bob': '" bob"',
    '': '""',
  }
  for (const [identity, shown] of Object.entries(quoted)) {
    assert.equal(shownIdentity(identity), shown)
    assert.match(shown, /^"[ -~]*"$/)
  }
})

test('an identity in quotes ends before a terminal would go on in the next line', () => {
  const row = `bob${' '.repeat(80)}bob  owner  5f0c 8e2a  acme.example deployer`
  assert.equal(shownIdentity(row), `"bob${' '.repeat(61)}…"`)
  for (const sign of [' ', '"', '\u043e', '🙂', '…'])
    for (const count of [6, 30, 63, 64, 65, 255]) {
      const shown = shownIdentity(sign.repeat(count))
      assert.ok(shown.length <= 67, `${sign} ${count}`)
      assert.match(shown, /^"(?:[^"\\…]|\\["\\]|\\u\{[0-9a-f]+\})*…?"$/)
    }
  assert.equal(shownIdentity(' '.repeat(64)), `"${' '.repeat(64)}"`)
})

test('a name stands alone only if no other member has one that looks alike', () => {
  const members = ['alice', 'bob', 'B.0b', 'carl', 'car1', 'i-l', 'l1', 'ann', 'ann', 'dora', 'eve: yes'].map(
    (identity, at) => ({ agentId: `${at}`.padStart(2, '0').repeat(32), identity }),
  )
  const names = new ShownNames(members)
  const shown = members.map((member) => names.of(member))
  assert.deepEqual(shown, [
    'alice',
    'bob (01010101…)',
    'B.0b (02020202…)',
    'carl (03030303…)',
    'car1 (04040404…)',
    'i-l (05050505…)',
    'l1 (06060606…)',
    'ann (07070707…)',
    'ann (08080808…)',
    'dora',
    '"eve: yes" (10101010…)',
  ])
  // A former member, whose name another has now or none has.
  for (const identity of ['dora', 'zoe']) {
    assert.equal(names.of({ agentId: 'ff'.repeat(32), identity }), `${identity} (ffffffff…)`)
  }
})

test('names that differ in a pair of letters or a digit that looks like another letter have fingerprints', () => {
  const pairs = [
    'mark rnark',
    'wendy vvendy',
    'bos5 boss',
    'z0e 20e',
    'cloud doud',
    'alice a1ice',
    'bob8 bobB',
    'c1oud doud',
  ]
  for (const pair of pairs) {
    const members = pair.split(' ').map((identity, at) => ({ agentId: `${at}${at}`.repeat(32), identity }))
    const names = new ShownNames(members)
    for (const member of members) assert.match(names.of(member), /…\)$/, pair)
  }
})
