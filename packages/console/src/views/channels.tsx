/** The channels of the account, each with a page of its own, and its agents. */
import type { OverviewChannel } from '@static/protocol'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Problem } from '../form.tsx'
import { bytes, count } from '../format.ts'
import { agentsOf, behindIn, labelOf, type Report, useOverview } from '../overview.ts'
import { Agent, Agents } from './agents.tsx'
import { Time } from './keys.tsx'

/** Shorter lists need no search. */
const LEAST_SEARCHED = 6

export function Channels(): JSX.Element {
  const { relays, error, reload, isLate } = useOverview()
  return (
    <>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {relays.length === 0 && error === undefined && <Waiting isLate={isLate} />}
      {relays.map((relay) => (
        <Relay key={relay.relay_id} relay={relay} where={relays.length > 1 ? ` on ${relay.relay}` : ''} />
      ))}
      {relays.length > 0 && (
        <p class="hint">
          The relay knows these names and numbers, but cannot read a message. It reports them only while this page is
          open, and the API does not store them.
        </p>
      )}
    </>
  )
}

/** Shown until a relay has reported. */
export function Waiting({ isLate }: { isLate: boolean }): JSX.Element {
  return (
    <section class="card" aria-busy={!isLate}>
      <p role="status">
        {isLate
          ? 'No relay has reported. Either none is running, or it does not report to this API. This page keeps asking.'
          : 'Asking the relay…'}
      </p>
    </section>
  )
}

function Relay({ relay, where }: { relay: Report; where: string }): JSX.Element {
  const { channels, total_channels: total } = relay
  const [words, setWords] = useState('')
  const agents = agentsOf(relay)
  const isWanted = ({ name, owner }: OverviewChannel): boolean => {
    const text = `${name} ${labelOf(owner, agents)}`.toLowerCase()
    return words
      .toLowerCase()
      .split(/\s+/)
      .every((word) => text.includes(word))
  }
  const wanted = channels.filter(isWanted)
  return (
    <>
      <section class="card">
        <div class="over">
          <h2>Channels{where}</h2>
          {channels.length >= LEAST_SEARCHED && (
            <input
              type="search"
              aria-label={`Search channels${where}`}
              placeholder="Name or owner"
              value={words}
              onInput={(event) => setWords(event.currentTarget.value)}
            />
          )}
        </div>
        {channels.length === 0 ? (
          <p class="quiet">No channels yet.</p>
        ) : wanted.length === 0 ? (
          <p role="status">No channel matches “{words}”.</p>
        ) : (
          <ChannelTable channels={wanted} relay={relay} />
        )}
        {total > channels.length && (
          <p class="hint">
            The first {count(channels.length)} of {count(total)} are listed and searched.
          </p>
        )}
      </section>
      <Agents relay={relay} where={where} />
    </>
  )
}

function ChannelTable({ channels, relay }: { channels: readonly OverviewChannel[]; relay: Report }): JSX.Element {
  const agents = agentsOf(relay)
  return (
    <table class="blocks">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Owner</th>
          <th scope="col">Members</th>
          <th scope="col">Waiting</th>
          <th scope="col">Last entry</th>
        </tr>
      </thead>
      <tbody>
        {channels.map((channel) => (
          <tr key={channel.id}>
            <th scope="row">
              <a href={`#/channels/${channel.id}`}>{channel.name}</a>{' '}
              {channel.mode === 'test' && <span class="badge">test</span>}
            </th>
            <td data-label="Owner">
              <Agent id={channel.owner} agents={agents} />
            </td>
            <td data-label="Members">
              <span>
                {count(channel.members)}
                {behindIn(channel) > 0 && <span class="quiet">, {count(behindIn(channel))} behind</span>}
              </span>
            </td>
            <td data-label="Waiting">{bytes(channel.waiting_bytes)}</td>
            <td data-label="Last entry">
              <Time iso={channel.last_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
