/** Preloaded: the machine as if libsodium had no binary for it. */
import { registerHooks } from 'node:module'

registerHooks({
  resolve: (specifier, context, next) => {
    if (specifier === 'sodium-native') throw new Error('libsodium is left out of this run')
    return next(specifier, context)
  },
})
