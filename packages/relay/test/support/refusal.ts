/** What a refused request rejects with. */
import { Refused } from './agent.ts'

/** For `assert.rejects`: a refusal with this code. */
export function refusal(code: string): (error: unknown) => boolean {
  return (error) => {
    if (error instanceof Refused && error.code === code) return true
    throw error
  }
}
