/** The public entry `@static/cli/authority`: the local certificate authority of `static up`. */
export type { CertificateAndKey } from './authority/certificate.ts'
export { type Authority, type AuthorityOptions, openAuthority } from './authority/open.ts'
export { serverCertificate, type ServerCertificate } from './authority/server.ts'
