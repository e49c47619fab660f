"""SLIM's native library as the bench sees it: `python3 peer.py node|members|sender OPTIONS`.

A process says {"type": "done"} when it is ready, then answers each JSON line on stdin with one on stdout, in the words
of bench/agent/messages.ts. MLS, TLS (verified) and retransmission are on. With "store" in the options, each app keeps
the keys of its sessions in that directory. Python only sets up: the loops that are measured are C (loops.c).
"""

import asyncio
import ctypes
import datetime
import json
import os
import resource
import sys

import slim_bindings as slim

SECRET = 'a shared secret of thirty-two bytes or more'
SECOND = datetime.timedelta(seconds=1)
# Held until the process ends: the library closes what the garbage collector takes.
HELD = []


def start():
    tracing = slim.new_tracing_config_with('error', False, False, [])
    slim.initialize_with_configs(slim.new_runtime_config(), tracing, [slim.new_service_config()])
    slim.uniffi_set_event_loop(asyncio.get_running_loop())


def name_of(group, role):
    return slim.Name('static', 'bench', f'{group}-{role}')


async def connect(options, role):
    group = options['group']
    name = name_of(group, role)
    service = slim.create_service(f'{group}-{role}')
    if options.get('store'):
        identity = f'static/bench/{group}-{role}'
        app = await service.create_app_with_persistence_async(
            name,
            slim.IdentityProviderConfig.SHARED_SECRET(id=identity, data=SECRET),
            slim.IdentityVerifierConfig.SHARED_SECRET(id=identity, data=SECRET),
            slim.Direction.BIDIRECTIONAL,
            slim.PersistenceConfig(path=os.path.join(options['store'], f'{group}-{role}'), passphrase='a passphrase'),
        )
    else:
        # The async one panics in 3.3.8: "there is no reactor running".
        app = service.create_app_with_secret(name, SECRET)
    config = slim.new_secure_client_config(f"https://localhost:{options['port']}")
    config.tls.ca_source = slim.CaSource.FILE(path=options['ca'])
    connection = await service.connect_async(config)
    await app.subscribe_async(name, connection)
    HELD.extend([service, app])
    return app, connection


def session_config():
    return slim.SessionConfig(
        session_type=slim.SessionType.GROUP,
        max_retries=10,
        interval=SECOND,
        metadata={},
        mls_settings=slim.MlsSettings(header_integrity_validation_percent=100, max_seen_control_message_ids_size=None),
    )


def open_loops(options):
    loops = ctypes.CDLL(options['loops'])
    loops.send_many.argtypes = (ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
    loops.receive_many.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    loops.start_echo.argtypes = (ctypes.c_uint64,)
    loops.round_trips.argtypes = (ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p)
    library = os.path.join(os.path.dirname(slim._slim_bindings_ns.__file__), 'libslim_bindings.so')
    if loops.open_library(library.encode()) != 0:
        raise RuntimeError('The library does not have the functions that loops.c calls.')
    return loops


async def apart(function, *words):
    return await asyncio.get_running_loop().run_in_executor(None, function, *words)


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e6)


async def serve(answer):
    loop = asyncio.get_running_loop()
    print(json.dumps({'type': 'done', 'cpu': 0}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        before = cpu()
        try:
            told = await answer(json.loads(line))
        except Exception as error:  # noqa: BLE001
            told = {'type': 'failed', 'message': repr(error)}
        if told['type'] == 'done':
            told['cpu'] = cpu() - before
        print(json.dumps(told), flush=True)
    os._exit(0)


async def node(options):
    source = slim.TlsSource.FILE(cert=options['cert'], key=options['key'])
    config = slim.new_secure_server_config(f"127.0.0.1:{options['port']}", source)
    await slim.get_global_service().run_server_async(config)

    async def answer(ask):
        return {'type': 'failed', 'message': 'The node is not asked.'}

    await serve(answer)


async def members(options):
    invited = []
    for at in range(options['members']):
        app, _ = await connect(options, at)
        invited.append(asyncio.ensure_future(app.listen_for_session_async(None)))

    loops = open_loops(options)

    async def answer(ask):
        sessions = await asyncio.gather(*invited)
        if ask['type'] == 'receive':
            handles = (ctypes.c_uint64 * len(sessions))(*(session._handle for session in sessions))
            await apart(loops.receive_many, handles, len(sessions), ask['count'])
        elif ask['type'] == 'echo':
            for session in sessions:
                loops.start_echo(session._handle)
        return {'type': 'done', 'cpu': 0}

    await serve(answer)


async def sender(options):
    app, connection = await connect(options, 'sender')
    session = await app.create_session_and_wait_async(session_config(), name_of(options['group'], 'channel'))
    for at in range(options['members']):
        member = name_of(options['group'], at)
        await app.set_route_async(member, connection)
        await session.invite_and_wait_async(member)

    loops = open_loops(options)

    async def answer(ask):
        if ask['type'] == 'send':
            await apart(loops.send_many, session._handle, ask['count'], ask['window'])
        elif ask['type'] == 'roundTrips':
            times = (ctypes.c_double * ask['count'])()
            await apart(loops.round_trips, session._handle, ask['count'], times)
            return {'type': 'times', 'times': list(times)}
        return {'type': 'done', 'cpu': 0}

    await serve(answer)


async def main():
    start()
    await {'node': node, 'members': members, 'sender': sender}[sys.argv[1]](json.loads(sys.argv[2]))


if __name__ == '__main__':
    asyncio.run(main())
