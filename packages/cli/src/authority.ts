/** The public entry `@static/cli/authority`: certificates for a system that has no others. */
export type { CertificateAndKey } from './authority/certificate.ts'
export { type Authority, type AuthorityOptions, openAuthority } from './authority/open.ts'
export { serverCertificate, type ServerCertificate } from './authority/server.ts'
