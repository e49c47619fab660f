/** `npm run proof -- crash`: every point of the crash table. */
process.env['STATIC_CRASH'] = 'all'
await import('./table.test.ts')
