/** Records whole packets on some ports with tcpdump. */
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'

/** A running capture. */
export interface Capture {
  /** Ends it and gives the file. Rejects when packets are missing. */
  stop(): Promise<Buffer>
}

/** In KiB: a busy machine lets tcpdump wait. */
const BUFFER_KIB = 65_536
const READY_TRIES = 100

/** Starts to record; resolves when packets arrive. `mark` is sent in the clear, and a search must find it. */
export async function startCapture(path: string, ports: readonly number[], mark: string): Promise<Capture> {
  const file = openSync(path, 'w', 0o600)
  const filter = ports.map((port) => `port ${port}`).join(' or ')
  const words = ['-i', 'lo', '-s', '0', '-B', String(BUFFER_KIB), '-U', '-Z', 'root', '-w', '-', filter]
  const tcpdump = spawn('tcpdump', words, { stdio: ['ignore', file, 'pipe'] })
  closeSync(file)
  const said = text(tcpdump.stderr!)
  const ended = once(tcpdump, 'exit')
  const isThere = (): boolean => readFileSync(path).includes(mark)
  const failed = async (): Promise<Error> => new Error(`tcpdump does not record: ${await said}`)
  const show = async (): Promise<void> => {
    for (let tries = 0; !isThere(); tries++) {
      if (tcpdump.exitCode !== null || tries === READY_TRIES) {
        tcpdump.kill('SIGKILL')
        throw await failed()
      }
      await sendInClear(ports[0] ?? 0, mark)
      await wait(50)
    }
  }
  await show()
  return {
    async stop() {
      // Packets still in the kernel arrive before the end.
      await wait(500)
      tcpdump.kill('SIGINT')
      await ended
      const words = await said
      if (!/^0 packets dropped by kernel/m.test(words)) throw new Error(`The capture has holes: ${words}`)
      const bytes = readFileSync(path)
      rmSync(path)
      return bytes
    },
  }
}

/** Sends one datagram to a port; its listener drops it as malformed. */
async function sendInClear(port: number, content: string): Promise<void> {
  const socket = createSocket('udp4')
  await new Promise((resolve) => socket.send(content, port, '127.0.0.1', resolve))
  socket.close()
}
