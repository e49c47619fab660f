/**
 * Opaque names for the database, the same on all nodes. Reading only the database reveals nothing about the subjects.
 */
import { createHmac } from 'node:crypto'

const NAME_BYTES = 16

/** Creates a function that names a subject of a policy, under a key derived from the master key. */
export function makeNamer(masterKey: Uint8Array): (policy: string, subject: string) => string {
  const key = createHmac('sha256', masterKey).update('static rate windows').digest()
  return (policy, subject) =>
    createHmac('sha256', key).update(`${policy} ${subject}`).digest().subarray(0, NAME_BYTES).toString('base64url')
}
