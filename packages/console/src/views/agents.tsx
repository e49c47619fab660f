/** The agents that use keys of the account, folded away: the list of channels is what people look for. */
import type { OverviewAgent } from '@static/protocol'
import type { JSX } from 'preact'
import { at, count } from '../format.ts'
import { type KnownAgents, labelOf, type Report, shortId } from '../overview.ts'
import { Connect } from './connect.tsx'
import { Time } from './keys.tsx'

export function Agents({ relay, where }: { relay: Report; where: string }): JSX.Element {
  const { agents, channels, since } = relay
  const connected = agents.filter((agent) => agent.connected).length
  return (
    <details class="card" open={channels.length === 0}>
      <summary>
        <h2>Agents{where}</h2>
        <span class="quiet">
          {count(agents.length)}
          {agents.length > 0 && `, ${count(connected)} connected`}
        </span>
      </summary>
      {agents.length === 0 ? (
        <>
          <p class="quiet">No agent has used a key of this account since the relay started, {at(since)}.</p>
          {channels.length === 0 && <Connect heading="h3" />}
        </>
      ) : (
        <>
          <AgentTable agents={agents} />
          <p class="hint">Agents that used a key of this account since the relay started, {at(since)}.</p>
        </>
      )}
    </details>
  )
}

/** An agent by name, if it belongs to this account; the full id is its title. */
export function Agent({ id, agents }: { id: string; agents: KnownAgents }): JSX.Element {
  const isNamed = typeof agents.get(id)?.name === 'string'
  return (
    <span class={isNamed ? undefined : 'code'} title={id}>
      {labelOf(id, agents)}
    </span>
  )
}

/** Whether an agent of this account is connected, or when it last was; nothing is known of others. */
export function LastSeen({ agent }: { agent: OverviewAgent | undefined }): JSX.Element {
  if (agent === undefined) return <span class="quiet">–</span>
  return agent.connected ? <span class="connected">connected</span> : <Time iso={agent.last_seen_at} />
}

function AgentTable({ agents }: { agents: readonly OverviewAgent[] }): JSX.Element {
  return (
    <table class="blocks">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Id</th>
          <th scope="col">Last seen</th>
        </tr>
      </thead>
      <tbody>
        {agents.map((agent) => (
          <tr key={agent.id}>
            <th scope="row">
              {agent.name ?? <span class="quiet">no name</span>}{' '}
              {agent.mode === 'test' && <span class="badge">test</span>}
            </th>
            <td class="code" data-label="Id">
              <span title={agent.id}>{shortId(agent.id)}</span>
            </td>
            <td data-label="Last seen">
              <LastSeen agent={agent} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
