/** Loads @peculiar/x509, which takes 100 ms and is needed only to create a certificate. */
import type * as X509 from '@peculiar/x509'

let loading: Promise<typeof X509> | undefined

/** The certificate library, loaded on first use. */
export function loadLibrary(): Promise<typeof X509> {
  loading ??= load()
  return loading
}

/**
 * tsyringe, a dependency of the library, refuses to load without `reflect-metadata`. It uses it only at load time, and
 * only for constructor parameters, which the library's classes do not have: two stubs are enough, removed after
 * loading.
 */
async function load(): Promise<typeof X509> {
  if ('getMetadata' in Reflect) return await import('@peculiar/x509')
  const shim = { getMetadata: (): undefined => undefined, getOwnMetadata: (): undefined => undefined }
  Object.assign(Reflect, shim)
  try {
    return await import('@peculiar/x509')
  } finally {
    for (const name of Object.keys(shim)) Reflect.deleteProperty(Reflect, name)
  }
}
