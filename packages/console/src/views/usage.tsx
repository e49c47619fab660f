/** The usage view. */
import type { ListedKey, Usage as UsageAnswer } from '@static/protocol'
import type { JSX } from 'preact'
import { Chart } from '../chart.tsx'
import { Problem } from '../form.tsx'
import { count, longDay } from '../format.ts'
import { Time } from './keys.tsx'
import { useLoaded } from '../session.ts'

export function Usage(): JSX.Element {
  const { data, error, reload } = useLoaded<UsageAnswer>('/v1/usage?days=30')
  return (
    <>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {data === undefined && error === undefined && <p class="quiet">Loading…</p>}
      {data && <Month usage={data} />}
      {data && <Chart days={data.daily} />}
      <ByKey />
    </>
  )
}

/** The usage of each key. */
function ByKey(): JSX.Element {
  const { data, error, reload } = useLoaded<{ keys: readonly ListedKey[] }>('/v1/keys')
  return (
    <section class="card">
      <h2>By key</h2>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {data?.keys.length === 0 && <p class="quiet">No active keys.</p>}
      {data && data.keys.length > 0 && (
        <table class="blocks">
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col">Messages this month</th>
              <th scope="col">Token exchanges</th>
              <th scope="col">Last used</th>
            </tr>
          </thead>
          <tbody>
            {data.keys.map((key) => (
              <tr key={key.id}>
                <th scope="row">
                  {key.name} {key.mode === 'test' && <span class="badge">test</span>}
                </th>
                <td data-label="Messages">{count(key.messages)}</td>
                <td data-label="Exchanges">{count(key.token_exchanges)}</td>
                <td data-label="Last used">
                  {key.last_used_at === null ? <span class="quiet">never</span> : <Time iso={key.last_used_at} />}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="hint">
        Messages that agents sent with the key; guests’ messages in your channels belong to no key. An agent exchanges
        its key for a token when it starts and about every hour.
      </p>
    </section>
  )
}

function Month({ usage }: { usage: UsageAnswer }): JSX.Element {
  const { used, reserved, limit, remaining } = usage.messages
  return (
    <section class="card">
      <h2>Messages this month</h2>
      <p class="figure">
        <strong>{count(used)}</strong> {limit === null ? 'sent, no limit' : `of ${count(limit)}`}
      </p>
      {limit !== null && <progress max={Math.max(limit, 1)} value={used} aria-label="Messages used of the limit" />}
      <dl>
        {remaining !== null && (
          <div>
            <dt>Remaining</dt>
            <dd>{count(remaining)}</dd>
          </div>
        )}
        <div>
          <dt>Reserved by relays</dt>
          <dd>{count(reserved)}</dd>
        </div>
        <div>
          <dt>Token exchanges</dt>
          <dd>{count(usage.token_exchanges)}</dd>
        </div>
        <div>
          <dt>Resets</dt>
          <dd>{longDay(usage.resets_at)}</dd>
        </div>
      </dl>
      <p class="hint">
        Live keys on the plan “{usage.plan}”. A message counts once, however many members read it; test keys are counted
        separately. Relays report what they have used every half minute.
      </p>
    </section>
  )
}
