/**
 * Makes the vectors of the CBOR form: `node tests/vectors/cbor/make.ts` writes one file each beside this one.
 * A file has header lines, an empty line, and the bytes in hex. `expect` is `success` (the bytes decode, and the message
 * encodes to the same bytes again) or the fault that the decoder must name. `type` is the message to decode.
 * The bytes are written by hand here, so that they depend on no codec.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Vector {
  readonly file: string
  readonly expect: string
  readonly type: string
  readonly about: string
  readonly hex: string
}

const vectors: Vector[] = []

function vector(expect: string, name: string, about: string, hex: string, type = 'ClientMessage'): void {
  const file = `${expect === 'success' ? 'ok' : expect}-${name}.txt`
  vectors.push({ file, expect, type: `static.relay.v1.${type}`, about, hex: hex.replaceAll(' ', '') })
}

// Key 8 of ClientMessage is get_challenge { 1: revision }, key 11 create_channel { 1: name }, key 4 ack { 1: positions };
// key 2 of ServerMessage is error, with the optional number 4 and the list of byte strings 6.
vector('success', 'smallest', 'one member of the oneof, an empty map', 'a1 08 a0')
vector('success', 'request', 'a request with a number in it', 'a2 01 01 08 a1 01 01')
vector('success', 'uint64-max', 'the largest 64-bit number', 'a2 01 1bffffffffffffffff 08 a0')
vector('success', 'uint64-2-53', 'a number that a double does not hold', 'a2 01 1b0020000000000001 08 a0')
vector('success', 'uint32-max', 'the largest 32-bit number', 'a1 08 a1 01 1affffffff')
vector('success', 'text', 'a text of two bytes and one letter', 'a1 0b a1 01 62 c3a9')
vector('success', 'byte-order-mark', 'a text that begins with U+FEFF', 'a1 0b a1 01 64 efbbbf61')
vector('success', 'list', 'a list of two maps', 'a1 04 a1 01 82 a1 02 01 a1 02 18 18')
vector('success', 'empty-in-list', 'an empty byte string in a list', 'a1 07 a1 01 81 40')
vector('success', 'optional-zero', 'an optional number that is set to 0', 'a1 02 a1 04 00', 'ServerMessage')
vector('success', 'true', 'a flag', 'a1 0f a1 01 f5', 'ServerMessage')
vector('success', 'enum', 'an enum', 'a1 09 a1 01 02')
vector('success', 'enum-unknown', 'enums are open', 'a1 09 a1 01 18 63')
vector('success', 'enum-negative', 'enums have a sign', 'a1 09 a1 01 20')
vector('success', 'oneof-zero', 'an empty member of a oneof is set all the same', 'a1 0c a1 01 40')

vector('truncated', 'empty', 'nothing', '')
vector('truncated', 'in-map', 'the second pair is missing', 'a2 01 01')
vector('truncated', 'in-head', 'half of a number', 'a2 01 19 01')
vector('truncated', 'in-text', 'a text without its end', 'a1 0b a1 01 63 6161')
vector('truncated', 'bytes-2-gb', 'a byte string of 2 GB', 'a1 0c a1 01 5a 7fffffff 00')
vector('truncated', 'bytes-2-40', 'a byte string of 2^40 bytes', 'a1 0c a1 01 5b 0000010000000000 00')
vector('truncated', 'bytes-2-63', 'a byte string of 2^63 bytes', 'a1 0c a1 01 5b 8000000000000000 00')
vector('truncated', 'array-10-8', 'an array of 10^8 items', 'a1 04 a1 01 9a 05f5e100 a0')
vector('truncated', 'map-2-64', 'a map of 2^64 - 1 pairs', 'bb ffffffffffffffff 01')
vector('trailing', 'zero', 'a byte too many', 'a1 08 a0 00')
vector('trailing', 'message', 'the message twice', 'a1 08 a0 a1 08 a0')

vector('not-minimal', 'int-8', '1 in two bytes', 'a2 01 18 01 08 a0')
vector('not-minimal', 'int-16', '255 in three bytes', 'a2 01 19 00ff 08 a0')
vector('not-minimal', 'int-32', '65,535 in five bytes', 'a2 01 1a 0000ffff 08 a0')
vector('not-minimal', 'int-64', '2^32 - 1 in nine bytes', 'a2 01 1b 00000000ffffffff 08 a0')
vector('not-minimal', 'key', 'key 8 in two bytes', 'a1 18 08 a0')
vector('not-minimal', 'map', 'one pair in two bytes', 'b8 01 08 a0')
vector('not-minimal', 'array', 'one item in two bytes', 'a1 04 a1 01 98 01 a0')
vector('not-minimal', 'bytes', 'a length in two bytes', 'a1 0c a1 01 58 01 00')
vector('not-minimal', 'text', 'a length in two bytes', 'a1 0b a1 01 78 01 61')

vector('indefinite', 'map', 'a map without a count', 'bf 08 a0 ff')
vector('indefinite', 'array', 'an array without a count', 'a1 04 a1 01 9f a0 ff')
vector('indefinite', 'bytes', 'a byte string in parts', 'a1 0c a1 01 5f 41 00 ff')
vector('indefinite', 'text', 'a text in parts', 'a1 0b a1 01 7f 61 61 ff')
vector('reserved', '28', 'additional information 28', 'a1 08 bc')
vector('reserved', '30', 'additional information 30', 'a2 01 1e')
vector('tag', 'number', 'a number that says it is a time', 'a2 01 c1 01 08 a0')
vector('tag', 'message', 'a message that says it is CBOR', 'd9d9f7 a1 08 a0')
vector('tag', 'key', 'a key with a tag', 'a1 c1 08 a0')
vector('simple', 'float-16', '1.0 in three bytes', 'a2 01 f9 3c00 08 a0')
vector('simple', 'float-32', '1.0 in five bytes', 'a2 01 fa 3f800000 08 a0')
vector('simple', 'float-64', '1.0 in nine bytes', 'a2 01 fb 3ff0000000000000 08 a0')
vector('simple', 'null', 'null', 'a1 08 f6')
vector('simple', 'undefined', 'undefined', 'a1 08 f7')
vector('simple', '0', 'simple value 0', 'a2 01 e0 08 a0')
vector('simple', 'break', 'an end of nothing', 'a1 08 ff')
vector('simple', 'true-long', 'true in two bytes', 'a1 0f a1 01 f8 15', 'ServerMessage')

vector('duplicate-key', 'number', 'the same number twice', 'a3 01 01 01 01 08 a0')
vector('duplicate-key', 'oneof', 'the same member of the oneof twice', 'a2 08 a0 08 a0')
vector('key-order', 'two', 'key 8 before key 1', 'a2 08 a0 01 01')
vector('key-order', 'inner', 'key 2 before key 1, further in', 'a1 04 a1 01 81 a2 02 01 01 41 00')
vector('unknown-key', 'outer', 'key 99', 'a2 08 a0 18 63 00')
vector('unknown-key', 'inner', 'key 2 of a message that ends at 1', 'a1 08 a1 02 00')
vector('unknown-key', 'zero', 'key 0, which no schema has', 'a2 00 00 08 a0')
vector('unknown-key', 'large', 'key 2^29 - 1', 'a2 08 a0 1a 1fffffff 00')
vector('range', 'key', 'key 2^29', 'a2 08 a0 1a 20000000 00')
vector('range', 'key-negative', 'key -1', 'a1 20 a0')
vector('type', 'key-text', 'a text as key', 'a1 61 38 a0')
vector('type', 'key-bytes', 'a byte string as key', 'a1 41 08 a0')

vector('oneof', 'none', 'no member', 'a1 01 01')
vector('oneof', 'none-at-all', 'an empty message', 'a0')
vector('oneof', 'two', 'two members', 'a2 08 a0 09 a0')
vector('oneof', 'none-inner', 'a channel to delete, but which', 'a1 0c a0')
vector('explicit-default', 'number', 'a 0 that should be absent', 'a2 01 00 08 a0')
vector('explicit-default', 'text', 'an empty text that should be absent', 'a1 0b a1 01 60')
vector('explicit-default', 'bytes', 'an empty byte string that should be absent', 'a1 04 a1 01 81 a1 01 40')
vector('explicit-default', 'list', 'an empty list that should be absent', 'a1 04 a1 01 80')
vector('explicit-default', 'false', 'a false that should be absent', 'a1 0f a1 01 f4', 'ServerMessage')
vector('explicit-default', 'enum', 'an enum of 0 that should be absent', 'a1 09 a1 01 00')

vector('range', 'uint32', '2^32 in 32 bits', 'a1 08 a1 01 1b 0000000100000000')
vector('range', 'uint32-negative', '-1 without a sign', 'a1 08 a1 01 20')
vector('range', 'uint64-negative', '-1 without a sign', 'a2 01 20 08 a0')
vector('range', 'uint64-least', '-2^64', 'a2 01 3b ffffffffffffffff 08 a0')
vector('range', 'enum', '2^31 as an enum', 'a1 09 a1 01 1a 80000000')
vector('type', 'outer-array', 'an array as message', '81 08')
vector('type', 'outer-bytes', 'a byte string as message', '43 a1 08 a0')
vector('type', 'array-for-message', 'an array for a message', 'a1 08 80')
vector('type', 'bytes-for-number', 'a byte string for a number', 'a2 01 41 01 08 a0')
vector('type', 'true-for-number', 'true for a number', 'a2 01 f5 08 a0')
vector('type', 'number-for-flag', '1 for a flag', 'a1 0f a1 01 01', 'ServerMessage')
vector('type', 'text-for-bytes', 'a text for a byte string', 'a1 0c a1 01 61 61')
vector('type', 'bytes-for-text', 'a byte string for a text', 'a1 0b a1 01 41 61')
vector('type', 'map-for-list', 'a map for a list', 'a1 04 a1 01 a1 01 a0')
vector('type', 'depth-1000', '1,000 arrays within each other', `a1 04 a1 01 ${'81'.repeat(1000)} a0`)
vector('type', 'nested-10-8', '200 arrays of 10^8 items within each other', `a1 08 ${'9a05f5e100'.repeat(200)}`)

vector('utf8', 'lone-continuation', 'a continuation byte alone', 'a1 0b a1 01 61 80')
vector('utf8', 'overlong', 'a slash in two bytes', 'a1 0b a1 01 62 c0af')
vector('utf8', 'surrogate', 'half of a surrogate pair', 'a1 0b a1 01 63 eda080')
vector('utf8', 'cut', 'a letter without its end', 'a1 0b a1 01 61 c3')
vector('utf8', 'beyond', 'U+110000', 'a1 0b a1 01 64 f4908080')

/** The files as they should be, by name. */
export const files: ReadonlyMap<string, string> = new Map(
  vectors.map(({ file, expect, type, about, hex }) => {
    return [file, `expect: ${expect}\ntype: ${type}\nabout: ${about}\n\n${hex}\n`]
  }),
)

if (import.meta.main) for (const [name, text] of files) writeFileSync(join(import.meta.dirname, name), text)
