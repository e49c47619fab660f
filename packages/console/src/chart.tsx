/** Messages per day: a bar chart, and the same numbers as a table. */
import type { Usage } from '@static/protocol'
import type { JSX } from 'preact'
import { count, longDay, shortDay } from './format.ts'

const HEIGHT = 100
/** The width of a bar, as a share of the width of a day. */
const BAR = 0.7
const STEPS = [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10]

export function Chart({ days }: { days: Usage['daily'] }): JSX.Element {
  const most = Math.max(...days.map(({ messages }) => messages))
  const sum = days.reduce((total, { messages }) => total + messages, 0)
  const top = niceTop(most)
  const busiest = days.find(({ messages }) => messages === most)
  const [first, last] = [days[0], days.at(-1)]
  return (
    <section class="card">
      <h2>Messages per day</h2>
      <figure>
        <figcaption>
          {sum === 0 || !busiest
            ? `No messages in the last ${days.length} days.`
            : `${count(sum)} in the last ${days.length} days, most on ${shortDay(busiest.date)} (${count(most)}).`}
        </figcaption>
        <div class="chart" aria-hidden="true">
          <div class="scale">
            <span>{count(top)}</span>
            <span>{count(top / 2)}</span>
            <span>0</span>
          </div>
          {/* Stretched to the available width; the labels are outside, so they are not stretched. */}
          <svg viewBox={`0 0 ${days.length} ${HEIGHT}`} preserveAspectRatio="none">
            {[0, HEIGHT / 2, HEIGHT].map((y) => (
              <line key={y} x1={0} x2={days.length} y1={y} y2={y} />
            ))}
            {days.map(({ date, messages }, place) => {
              const height = (messages / top) * HEIGHT
              return (
                <rect key={date} x={place + (1 - BAR) / 2} y={HEIGHT - height} width={BAR} height={height}>
                  <title>{`${shortDay(date)}: ${count(messages)}`}</title>
                </rect>
              )
            })}
          </svg>
          <div class="days">
            <span>{first && shortDay(first.date)}</span>
            <span>{last && shortDay(last.date)}</span>
          </div>
        </div>
      </figure>
      <details>
        <summary>Show the numbers</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">Day (UTC)</th>
              <th scope="col" class="number">
                Messages
              </th>
            </tr>
          </thead>
          <tbody>
            {days.toReversed().map(({ date, messages }) => (
              <tr key={date}>
                <th scope="row">{longDay(date)}</th>
                <td class="number">{count(messages)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  )
}

/** The next round, even number, so that its half is a whole number. */
function niceTop(most: number): number {
  const least = Math.max(most, 2)
  const power = 10 ** Math.floor(Math.log10(least))
  return STEPS.map((step) => step * power).find((top) => top >= least && top % 2 === 0) ?? power * 10
}
