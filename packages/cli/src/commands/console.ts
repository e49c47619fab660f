/** `static console`: the web page that shows keys and usage. */
import { spawn } from 'node:child_process'
import { Command } from 'commander'
import { accountOf, addApiFlags, type ApiFlags } from '../account/account.ts'
import { examples } from '../terminal/examples.ts'
import { print, printJson } from '../terminal/output.ts'

interface Flags extends ApiFlags {
  readonly open: boolean
}

export function consoleCommand(): Command {
  return addApiFlags(new Command('console').option('--no-open', 'only print the URL'))
    .addHelpText('after', examples('static console', 'static console --no-open'))
    .action(showConsole)
}

function showConsole(flags: Flags): void {
  const url = `${accountOf(flags).apiUrl}/console`
  if (flags.json) return printJson({ url })
  print(url)
  if (flags.open && process.stdout.isTTY) openPage(url)
}

/** Opens a browser if there is a desktop. A failure is ignored: the URL is already printed. */
function openPage(url: string): void {
  const isMac = process.platform === 'darwin'
  if (!isMac && !process.env['DISPLAY'] && !process.env['WAYLAND_DISPLAY']) return
  const opener = spawn(isMac ? 'open' : 'xdg-open', [url], { stdio: 'ignore', detached: true })
  opener.on('error', () => {})
  opener.unref()
}
