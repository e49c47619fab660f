/** The story of the README in short, told by proofs: an account, a channel, an invite and a message. */

/** Runs a shell command and returns its output; throws if it fails. */
export type Shell = (command: string) => string

/** Lets two agents talk by a command such as `npx static`. */
export function talk(shell: Shell, command: string, url: string, relay: string): void {
  const name = 'acme/support/routing'
  const account = `--email you@example.com --password-stdin --api-url ${url} --relay ${relay}`
  shell(`echo 'choose a good one' | ${command} signup ${account}`)
  shell(`${command} channel create ${name} --as alice`)
  // Others can join only while alice listens.
  const listens = `${command} channel listen ${name} --as alice --count 1 & listener=$!`
  const joins = `${command} channel invite ${name} --as alice | ${command} channel join ${name} --as bob`
  const sends = `echo 'hello alice' | ${command} channel send ${name} --as bob`
  const heard = shell(`${listens}; { ${joins} && ${sends}; } >&2 && wait $listener || { kill $listener; exit 1; }`)
  if (heard !== 'hello alice\n') throw new Error(`Alice heard ${JSON.stringify(heard)}.`)
}
