/**
 * Imported first by the entries, so that an old Node reports a clear sentence instead of the first error that it runs
 * into. The modules that the entries import must link there: import anything that Node 20 lacks from the default export
 * of its module.
 */
const OLDEST_NODE = 24
const { versions } = process
// Bun and Deno only name the Node that they resemble.
const isNode = !('bun' in versions || 'deno' in versions)
if (isNode && Number(versions.node.split('.')[0]) < OLDEST_NODE)
  throw new Error(
    `@static/sdk needs Node ${OLDEST_NODE} or newer, and this is Node ${versions.node} (${process.execPath}).`,
  )
