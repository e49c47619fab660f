/** A relay of a world: the real core and its runner, on a disk and a network of the world. */
import { ALL_TRAFFIC, AUDIENCE, ISSUER, RELAY_ID_BYTES, type TokenClaims } from '@static/protocol'
import { CoreRunner, makeCrypto, Relay, settingsFrom } from '@static/relay/internal'
import { FakeApi } from '@static/testkit/relay/api'
import { RelayDisk } from './disk.ts'
import type { Machine } from './machine.ts'
import type { Network } from './network.ts'
import type { World } from './world.ts'

/** The relay's name. */
export const RELAY = 'relay.test'

const HOUR_SECONDS = 3600

/** The address of a relay, and its initial state. */
interface Place {
  readonly door: number
  readonly disk: RelayDisk
}

/** The relay of a world. */
export class SimulatedRelay {
  /** Errors that are the relay's own. */
  readonly errors: unknown[] = []
  readonly #world: World
  readonly #network: Network
  readonly #settings: ReturnType<typeof settingsFrom>
  readonly #api: FakeApi
  readonly #door: number
  #disk: RelayDisk
  #machine: Machine

  constructor(world: World, network: Network, settings: object = {}, place?: Place) {
    this.#world = world
    this.#network = network
    this.#settings = settingsFrom(settings)
    this.#api = new FakeApi(() => world.now)
    this.#door = place?.door ?? 0
    this.#disk = place?.disk ?? newDisk(world, this.#settings.retention)
    this.#machine = this.#start()
  }

  get disk(): RelayDisk {
    return this.#disk
  }

  get machine(): Machine {
    return this.#machine
  }

  /** Starts it again after its death. */
  restart(): void {
    this.#machine.kill('and starts again')
    this.#machine = this.#start()
  }

  /** Starts again from an earlier state of its disk. */
  rollBack(disk: RelayDisk): void {
    this.#machine.kill('and forgets')
    this.#disk = disk.copy()
    this.#machine = this.#start()
  }

  #start(): Machine {
    const world = this.#world
    const settings = this.#settings
    const machine = world.machine('relay')
    const now = (): number => world.now
    machine.do(() => {
      const store = this.disk.open(machine, (event) => runner.event(event))
      const identity = { name: RELAY, guests: true, traffic: ALL_TRAFFIC, grpcPort: () => 5001 }
      const relay = new Relay({ identity, deployment: store.deployment, settings, crypto: makeCrypto() })
      const failed = (error: unknown): void => {
        if (!machine.isDead) this.errors.push(error)
      }
      const runner: CoreRunner = new CoreRunner({
        relay,
        store,
        settings,
        verify: (jwt) => Promise.resolve(claimsOf(jwt, now())),
        quota: this.#api,
        now,
        monotonic: now,
        nextTurn: (act) => act(),
        onError: failed,
        onStoreError: failed,
        onExcess: () => {},
        onSend: () => {},
        onSession: () => {},
      })
      this.#network.listen(machine, (transport) => runner.streams(transport), this.#door)
    })
    return machine
  }
}

function newDisk(world: World, retention: ConstructorParameters<typeof RelayDisk>[2]): RelayDisk {
  const { randomBytes } = process.getBuiltinModule('node:crypto')
  const deployment = { relayId: randomBytes(RELAY_ID_BYTES), tokenKey: randomBytes(32), busKey: randomBytes(32) }
  return new RelayDisk(world, deployment, retention)
}

/** The token of an account is its name. */
function claimsOf(account: string, now: number): TokenClaims {
  const iat = Math.floor(now / 1000)
  return {
    sub: account,
    plan: 'free',
    iss: ISSUER,
    aud: AUDIENCE,
    iat,
    exp: iat + HOUR_SECONDS,
    jti: `${account} ${iat}`,
    mode: 'live',
  }
}
