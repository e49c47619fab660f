/** The channels and agents of the account, as its relays report them while this view is open. */
import type { Overview, OverviewAgent, OverviewChannel, RelayOverview } from '@static/protocol'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Connect } from './connect.tsx'
import { DeleteChannel } from './delete-channel.tsx'
import { Problem } from '../form.tsx'
import { at, bytes, count } from '../format.ts'
import { Time } from './keys.tsx'
import { useLoaded } from '../session.ts'

/** How often the view polls: more often until a relay has reported. */
const FIRST_MS = 1000
const LATER_MS = 5000
/** After this time without a report, the view suggests possible reasons. */
const PATIENCE_MS = 15_000
const MOST_NAMED = 3

export function Channels(): JSX.Element {
  const { data, error, reload } = useLoaded<Overview>('/v1/channels')
  const has = (data?.relays.length ?? 0) > 0
  const [late, setLate] = useState(false)
  useEffect(() => {
    const look = (): void => void (document.visibilityState === 'visible' && reload())
    const timer = setInterval(look, has ? LATER_MS : FIRST_MS)
    return () => clearInterval(timer)
  }, [has, reload])
  useEffect(() => {
    setLate(false)
    const timer = setTimeout(() => setLate(!has), PATIENCE_MS)
    return () => clearTimeout(timer)
  }, [has])

  return (
    <>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {!has && error === undefined && <Waiting late={late} />}
      {data?.relays.map((relay) => (
        <Relay key={relay.relay_id} relay={relay} named={data.relays.length > 1} />
      ))}
      {has && (
        <p class="hint">
          The relay knows these names and numbers, but cannot read a message. It reports them only while this page is
          open, and the API does not store them.
        </p>
      )}
    </>
  )
}

function Waiting({ late }: { late: boolean }): JSX.Element {
  return (
    <section class="card" aria-busy={!late}>
      <p role="status">
        {late
          ? 'No relay has reported. Either none is running, or it does not report to this API. This page keeps asking.'
          : 'Asking the relay…'}
      </p>
    </section>
  )
}

function Relay({ relay, named }: { relay: Overview['relays'][number]; named: boolean }): JSX.Element {
  const where = named ? ` on ${relay.relay}` : ''
  return (
    <>
      <section class="card">
        <h2>Channels{where}</h2>
        {relay.channels.length === 0 ? <p class="quiet">No channels yet.</p> : <ChannelTable relay={relay} />}
        {relay.total_channels > relay.channels.length && (
          <p class="hint">
            The first {count(relay.channels.length)} of {count(relay.total_channels)} are listed.
          </p>
        )}
      </section>
      <section class="card">
        <h2>Agents{where}</h2>
        {relay.agents.length === 0 ? (
          <>
            <p class="quiet">No agent has used a key of this account since the relay started, {at(relay.since)}.</p>
            {relay.channels.length === 0 && <Connect heading="h3" />}
          </>
        ) : (
          <>
            <AgentTable agents={relay.agents} />
            <p class="hint">Agents that used a key of this account since the relay started, {at(relay.since)}.</p>
          </>
        )}
      </section>
    </>
  )
}

function ChannelTable({ relay }: { relay: RelayOverview }): JSX.Element {
  const names = new Map(relay.agents.map((agent) => [agent.id, labelOf(agent)]))
  return (
    <table class="blocks">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Owner</th>
          <th scope="col">Members</th>
          <th scope="col">Waiting</th>
          <th scope="col">Not fetched yet</th>
          <th scope="col">
            <span class="hidden">Action</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {relay.channels.map((channel) => (
          <tr key={channel.id}>
            <th scope="row">
              {channel.name} {channel.mode === 'test' && <span class="badge">test</span>}
            </th>
            <td data-label="Owner">
              <Agent id={channel.owner} names={names} />
            </td>
            <td data-label="Members">{count(channel.members)}</td>
            <td data-label="Waiting">{bytes(channel.waiting_bytes)}</td>
            <td data-label="Not fetched">
              <Behind channel={channel} names={names} />
            </td>
            <td class="end">
              <DeleteChannel channel={channel} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

type Names = ReadonlyMap<string, string>

/** The members with unfetched entries, furthest behind first. */
function Behind({ channel, names }: { channel: OverviewChannel; names: Names }): JSX.Element {
  const behind = channel.behind.filter(({ waiting }) => waiting > 0)
  if (behind.length === 0) return <span class="quiet">–</span>
  const more = behind.length - MOST_NAMED
  return (
    <div>
      {behind.slice(0, MOST_NAMED).map(({ agent, waiting }) => (
        <div key={agent}>
          <Agent id={agent} names={names} /> ({count(waiting)})
        </div>
      ))}
      {more > 0 && <div class="quiet">and {count(more)} more</div>}
    </div>
  )
}

/** An agent by name, if it belongs to this account; the full id is its title. */
function Agent({ id, names }: { id: string; names: Names }): JSX.Element {
  const name = names.get(id)
  return (
    <span class={name === undefined ? 'code' : undefined} title={id}>
      {name ?? shortId(id)}
    </span>
  )
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
              {agent.connected ? <span class="connected">connected</span> : <Time iso={agent.last_seen_at} />}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function labelOf({ id, name }: OverviewAgent): string {
  return name ?? shortId(id)
}

/** Enough digits to tell agents apart; the full id is too long for a table. */
function shortId(id: string): string {
  return `${id.slice(0, 12)}…`
}
