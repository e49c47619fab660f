/** The usage view. */
import type { Usage as UsageAnswer } from '@static/protocol'
import type { JSX } from 'preact'
import { Chart } from './chart.tsx'
import { Problem } from './form.tsx'
import { count, longDay } from './format.ts'
import { useLoaded } from './session.ts'

export function Usage(): JSX.Element {
  const { data, error, reload } = useLoaded<UsageAnswer>('/v1/usage?days=30')
  return (
    <>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {data === undefined && error === undefined && <p class="quiet">Loading…</p>}
      {data && <Month usage={data} />}
      {data && <Chart days={data.daily} />}
    </>
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
        separately. The numbers update within seconds.
      </p>
    </section>
  )
}
