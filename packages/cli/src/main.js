#!/usr/bin/env node
// The `static` command. This file and old-node.js are written for Node 12, so that an old Node says more than that it
// found a syntax error.
/** As `engines` in package.json says. */
const OLDEST_NODE = 24

if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
  void import('./old-node.js').then(({ handOver }) => handOver(OLDEST_NODE))
} else {
  void import('./start.js')
}
