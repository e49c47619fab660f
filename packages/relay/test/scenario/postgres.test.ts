/** One relay node over PostgreSQL. */
import { emptyScratch } from '../support/postgres.ts'
import { membershipScenarios } from './membership.ts'
import { messageScenarios } from './messages.ts'

// Each begins with an empty database; the tables of the first stay, and so does the key they belong to.
const options = async (): Promise<{ database: string; keyFile: string }> => {
  const { url, keyFile } = await emptyScratch()
  return { database: url, keyFile }
}

messageScenarios('grpc', options)
membershipScenarios('grpc', options)
