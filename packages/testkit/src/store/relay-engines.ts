/** The engines of the relay's store, for measuring them side by side. */
export { openPostgresStore, openSqliteStore, type Retention, type Store } from '@static/relay/internal'
