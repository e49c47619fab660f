/** A checker over the files of an account and the network. */
import { Checker, type CheckerPorts } from '../../proofs/checker.ts'
import type { Root } from '../../proofs/roots.ts'
import { fetchKeys } from './fetch-keys.ts'
import type { Proxy } from './proxy.ts'
import { TrustStore } from './store.ts'

export interface CheckerOptions {
  /** The directory of the trust list: `UserPlaces.trust`. */
  readonly directory: string
  /** The identity of the agent, to which roots may be narrowed. */
  readonly identity: string
  /** The roots of the application, instead of those on the list. Their keys are kept in the directory all the same. */
  readonly roots?: readonly Root[] | undefined
  readonly proxy?: Proxy | undefined
  /** See `CheckerPorts`. */
  readonly failed?: CheckerPorts['failed']
}

/** A timer that does not keep the process alive. */
export const unrefTimer: CheckerPorts['later'] = (milliseconds, action) => {
  const timer = setTimeout(action, milliseconds).unref()
  return () => clearTimeout(timer)
}

/** `changed`: see `Checker`. */
export function openChecker(
  { directory, identity, roots, proxy, failed = () => {} }: CheckerOptions,
  changed: () => void,
): Checker {
  const store = new TrustStore(directory)
  const listed = (): readonly Root[] =>
    store.list().flatMap(({ root, agents }) => (agents === undefined || agents.includes(identity) ? [root] : []))
  return new Checker(
    {
      roots: () => roots ?? listed(),
      load: (root) => store.load(root),
      update: (root, change) => store.update(root, change),
      version: () => store.version(),
      fetch: (root) => fetchKeys(root, proxy),
      failed,
      now: Date.now,
      chance: Math.random,
      later: unrefTimer,
    },
    changed,
  )
}
