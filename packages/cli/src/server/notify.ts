/**
 * Reports the server's state to the service manager, like sd_notify(3). Node cannot send to the manager's datagram
 * socket, so the manager's own program does it; the unit needs `NotifyAccess=all` for that.
 */
import { spawn } from 'node:child_process'

/** Sends a state if a manager asked for it (`Type=notify`). Without a manager, or if it fails, the server continues. */
export function notifyManager(state: 'READY=1' | 'STOPPING=1'): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return
  const child = spawn('systemd-notify', [state], { stdio: 'ignore' })
  child.on('error', ({ message }) => {
    process.stderr.write(`static: cannot run systemd-notify (${message}). Use Type=exec in the unit.\n`)
  })
  // A manager that does not answer must not keep a stopped server alive.
  child.unref()
}
