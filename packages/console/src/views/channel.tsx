/** One channel: its members and how far they are behind, and its deletion. */
import type { OverviewChannel } from '@static/protocol'
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Problem } from '../form.tsx'
import { ago, at, bytes, count } from '../format.ts'
import { agentsOf, type Report, useOverview } from '../overview.ts'
import { enterView, nameView } from '../view.ts'
import { Agent, LastSeen } from './agents.tsx'
import { Waiting } from './channels.tsx'
import { DeleteChannel } from './delete-channel.tsx'

export function Channel({ id }: { id: string }): JSX.Element {
  const { relays, error, reload, isLate } = useOverview()
  const relay = relays.find(({ channels }) => channels.some((each) => each.id === id))
  const channel = relay?.channels.find((each) => each.id === id)
  const heading = useRef<HTMLHeadingElement>(null)
  const title = channel?.name ?? 'Channel'
  useLayoutEffect(() => enterView('Channel', heading.current), [])
  // The name is known once a relay has reported.
  useEffect(() => nameView(title), [title])
  return (
    <>
      <div class="title">
        <a href="#/channels">All channels</a>
        <h1 ref={heading} tabIndex={-1}>
          {title} {channel?.mode === 'test' && <span class="badge">test</span>}
        </h1>
      </div>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {relays.length === 0 && error === undefined && <Waiting isLate={isLate} />}
      {relays.length > 0 && !channel && (
        <section class="card">
          <p>
            This account has no such channel. It was deleted or handed to another account, or it is not among those that
            the relay lists.
          </p>
        </section>
      )}
      {relay && channel && <Details channel={channel} relay={relay} isNamed={relays.length > 1} />}
    </>
  )
}

function Details(props: { channel: OverviewChannel; relay: Report; isNamed: boolean }): JSX.Element {
  const { channel, relay, isNamed } = props
  const agents = agentsOf(relay)
  return (
    <>
      <section class="card">
        <h2>Overview</h2>
        <dl class="facts">
          <Fact name="Owner">
            <Agent id={channel.owner} agents={agents} />
          </Fact>
          <Fact name="Members">{count(channel.members)}</Fact>
          <Fact name="Waiting">{bytes(channel.waiting_bytes)}</Fact>
          <Fact name="Last entry">
            <Moment iso={channel.last_at} />
          </Fact>
          <Fact name="Created">
            <Moment iso={channel.created_at} />
          </Fact>
          {isNamed && <Fact name="Relay">{relay.relay}</Fact>}
          <Fact name="Id">
            <span class="code">{channel.id}</span>
          </Fact>
        </dl>
        <p class="hint">
          “Waiting” is what the relay keeps until all members have fetched it. It knows these names and numbers, but
          cannot read a message.
        </p>
      </section>
      <section class="card">
        <h2>Members</h2>
        <MemberTable channel={channel} relay={relay} />
        {channel.members > channel.behind.length && (
          <p class="hint">
            The {count(channel.behind.length)} furthest behind of {count(channel.members)} members are listed.
          </p>
        )}
      </section>
      <section class="card">
        <h2>Delete this channel</h2>
        <p>It ends for all its members, permanently, even if the machine of its owner is gone.</p>
        <div class="actions">
          <DeleteChannel channel={channel} />
        </div>
      </section>
    </>
  )
}

function Fact({ name, children }: { name: string; children: JSX.Element | string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

/** A date, and how long ago it was. */
function Moment({ iso }: { iso: string }): JSX.Element {
  const [date, distance] = [at(iso), ago(iso)]
  return (
    <>
      <time dateTime={iso}>{date}</time> {distance !== date && <span class="quiet">({distance})</span>}
    </>
  )
}

/** The members that the relay reports, furthest behind first. */
function MemberTable({ channel, relay }: { channel: OverviewChannel; relay: Report }): JSX.Element {
  const agents = agentsOf(relay)
  return (
    <table class="blocks">
      <thead>
        <tr>
          <th scope="col">Member</th>
          <th scope="col">Not fetched yet</th>
          <th scope="col">Last seen</th>
        </tr>
      </thead>
      <tbody>
        {channel.behind.map(({ agent, waiting }) => (
          <tr key={agent}>
            <th scope="row">
              <Agent id={agent} agents={agents} /> {agent === channel.owner && <span class="badge">owner</span>}
            </th>
            <td data-label="Not fetched">
              {waiting === 0 ? (
                <span class="quiet">nothing</span>
              ) : waiting === 1 ? (
                '1 entry'
              ) : (
                `${count(waiting)} entries`
              )}
            </td>
            <td data-label="Last seen">
              <LastSeen agent={agents.get(agent)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
