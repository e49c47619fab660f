/** The files of an agent: what was supplied from outside, and the places that its transfers share. */
import { StaticError } from '@static/protocol'
import type { FileDisk, PartLine } from '../ports/index.ts'
import { PartPlaces } from './part-places.ts'

/** The parts of an agent that files need, supplied from outside. */
export interface FileParts {
  readonly line: PartLine
  readonly disk: FileDisk
  /** Whether the traffic of this agent is shaped so that the network cannot see when it sends. */
  readonly isShaped: boolean
  /** Whether transfers of files may be seen all the same. */
  readonly visible: boolean
}

/** The files of an agent: its transfers share four places. */
export interface AgentFiles extends FileParts {
  readonly places: PartPlaces
}

export function agentFiles(parts: FileParts | undefined): AgentFiles | undefined {
  return parts && { ...parts, places: new PartPlaces() }
}

/**
 * The files of an agent that may transfer them.
 *
 * @throws {StaticError} `not_allowed` if a transfer would show what the agent's traffic profile hides
 */
export function allowedFiles({ files }: { readonly files: AgentFiles | undefined }): AgentFiles {
  if (!files) throw StaticError.of('files_unavailable', 'This agent was started without files.')
  if (!files.isShaped || files.visible) return files
  const text =
    'This agent uses the traffic profile private or strict, and the network would see the transfer of a file.'
  throw StaticError.of('not_allowed', `${text} To allow that, open the client with \`visibleFiles: true\`.`)
}
