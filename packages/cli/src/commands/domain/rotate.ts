/** `static domain rotate`: replaces the key of a domain by one that others know before it signs. */
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import { userPlaces } from '@static/sdk/account'
import { examples } from '../../terminal/examples.ts'
import { commandLine, note, print, printJson } from '../../terminal/output.ts'
import { addFetchFlags, type FetchFlags } from '../trust.ts'
import { addFileFlag, checkDomain, checkTarget, type FileFlags, publish, published, storeOf } from './file.ts'

interface RotateFlags extends FileFlags, FetchFlags {
  readonly finish?: boolean
  readonly drop?: boolean
}

export function rotateCommand(): Command {
  return addFetchFlags(
    addFileFlag(
      new Command('rotate')
        .description('make the next key of a domain, and write the file to publish again')
        .addArgument(new Argument('<domain>', 'the domain'))
        .option('--finish', 'once the file is published: sign with the next key from now on')
        .option('--drop', 'drop the keys that sign no more: what they have signed is void'),
    ),
  )
    .addHelpText(
      'after',
      `
Others learn a key before it signs anything, so a rotation has two steps. The last key stays in the file for 90 days, for
the statements that it has signed; with --drop, as after a theft, those are void, and you sign them again.
${examples('static domain rotate acme.example', 'static domain rotate acme.example --finish')}`,
    )
    .action(rotate)
}

async function rotate(given: string, flags: RotateFlags): Promise<void> {
  const { thumbprintOf } = await import('@static/sdk/trust')
  if (flags.finish && flags.drop) throw StaticError.of('invalid_request', 'Pass either --finish or --drop.')
  const domain = await checkDomain(given)
  const store = await storeOf(domain)
  const file = checkTarget(flags.out, domain)
  if (flags.finish) store.finishRotation((await published(domain, flags)).found.keys, Date.now())
  else if (flags.drop) store.dropRetired()
  else store.beginRotation(Date.now())
  const { keys, address } = await publish(store, file)
  const next = store.nextKey && thumbprintOf(store.nextKey)
  if (flags.json) return printJson({ domain, keys, next: next ?? null, file, publish_at: address })
  if (flags.finish) print(`${keys[0]} signs for ${domain} from now on.`)
  else if (flags.drop)
    print(`What other keys of ${domain} than ${keys[0]} have signed is void once the file is published.`)
  else print(`Made the next key of ${domain}: ${next}`)
  const then = next === undefined ? `domain check ${domain}` : `domain rotate ${domain} --finish`
  print(`Upload ${file} to ${address}, then run \`${commandLine(then)}\`.`)
  note(`back the keys up: ${userPlaces().domains} has the only copy.`)
}
