/** Builds the page into dist/: one script and one style sheet, named by their hashes. */
import { build } from 'vite'

await build({
  configFile: false,
  root: import.meta.dirname,
  // Where the API serves it.
  base: '/console/',
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: ['chrome123', 'firefox120', 'safari17.5'],
    // Nothing inline: the page's policy allows files of its own origin and nothing else.
    assetsInlineLimit: 0,
    modulePreload: false,
  },
})
