/** What `src` alone has no use for: tests, and what is internal to them, are no reason to be there. */
import type { KnipConfig } from 'knip'

const config: KnipConfig = {
  ignoreExportsUsedInFile: true,
  include: ['files', 'exports', 'types', 'duplicates'],
  ignoreWorkspaces: ['packages/console', 'packages/testkit'],
  workspaces: {
    '.': { entry: [], project: [] },
    'packages/*': { entry: [], project: ['src/**'] },
  },
  // An export of each package, and so an entry, but only of the test kit: it is read as if it were empty.
  compilers: { ts: (source: string, path: string) => (path.endsWith('/src/internal.ts') ? '' : source) },
}

export default config
