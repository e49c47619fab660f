/** The engines of the relay's store, for measurements beside each other. */
export { openPostgresStore, openSqliteStore, type Retention, type Store } from '@static/relay/internal'
