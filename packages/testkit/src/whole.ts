/**
 * Whether tests run in their whole form: with STATIC_WHOLE=1, as `npm run proof -- ci` does. `npm test` has the short
 * one, which notices every planted bug.
 */
export const IS_WHOLE: boolean = process.env['STATIC_WHOLE'] === '1'

/** Options of a test that only the whole form has. */
export const WHOLE_ONLY: { readonly skip: string | false } = {
  skip: !IS_WHOLE && 'run by `npm run proof -- ci`',
}
