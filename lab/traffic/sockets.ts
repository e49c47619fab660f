/** Which ports belong to which process, as the kernel tells it. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const TABLES = { tcp: ['tcp', 'tcp6'], udp: ['udp', 'udp6'] } as const

/** The local ports of a process that go to a remote one; those of UDP may go anywhere. */
export function portsOf(pid: number, protocol: 'tcp' | 'udp', remotePort: number): number[] {
  const own = new Set(socketsOf(pid))
  const ports: number[] = []
  for (const table of TABLES[protocol]) {
    for (const line of readFileSync(`/proc/net/${table}`, 'utf8').split('\n').slice(1)) {
      const [, local = '', remote = '', , , , , , , inode = ''] = line.trim().split(/\s+/)
      if (!own.has(inode)) continue
      const target = portOf(remote)
      if (target === remotePort || (protocol === 'udp' && target === 0)) ports.push(portOf(local))
    }
  }
  return ports
}

function socketsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      const [, inode] = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`)) ?? []
      return inode === undefined ? [] : [inode]
    } catch {
      // Closed in the meantime.
      return []
    }
  })
}

function portOf(address: string): number {
  return Number.parseInt(address.split(':')[1] ?? '0', 16)
}
