"""A client of the relay in Python with nothing of ours: grpcio, protobuf and cryptography from Debian.

It exists to show that the wire is what SPEC.md says. Messages come from the schema's descriptors, so nothing is
generated here.
"""

import hashlib
import os
import queue
import struct

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RELAY = "static.relay.v1"
HEALTH = "grpc.health.v1"
CELL_BYTES = 1024
PAYLOAD_BYTES = 1021
COVER = (0, 1)
PING, PONG, WHOLE, FIRST, NEXT, LAST = 2, 3, 5, 6, 7, 8
PURPOSES = {"session": 1, "unary": 2, "refresh": 3}
TRAFFIC_STANDARD = 1


class Schema:
    """The message classes of a file with descriptors."""

    def __init__(self, path):
        self._pool = descriptor_pool.DescriptorPool()
        self._factory = message_factory.MessageFactory(self._pool)
        with open(path, "rb") as file:
            for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
                self._pool.Add(proto)

    def message(self, name):
        return self._factory.GetPrototype(self._pool.FindMessageTypeByName(name))

    def method(self, service, name):
        method = self._pool.FindServiceByName(service).methods_by_name[name]
        return f"/{service}/{name}", self.message(method.input_type.full_name), self.message(method.output_type.full_name)


class Refused(Exception):
    """The relay refused a call; `error` is its Error, with all fields."""

    def __init__(self, status, error):
        super().__init__(f"{error.code}: {error.message}")
        self.status = status
        self.error = error


def sha256(data):
    return hashlib.sha256(data).digest()


def length_prefixed(fields):
    """Every field behind its length; numbers have 8 bytes, a list is one field that holds its items in the same way."""
    parts = []
    for field in fields:
        if isinstance(field, str):
            field = field.encode()
        elif isinstance(field, int):
            field = struct.pack(">Q", field)
        elif isinstance(field, list):
            field = length_prefixed(field)
        parts += [struct.pack(">I", len(field)), field]
    return b"".join(parts)


def signed_bytes(context, fields):
    """What is signed: 64 spaces, the context, a zero, then the fields."""
    return b" " * 64 + context.encode() + b"\0" + length_prefixed(fields)


def chain_next(previous, kind, sender, message_id, body):
    """The hash of a log after an entry."""
    return sha256(length_prefixed(["static log 1", previous, kind, sender, message_id, sha256(body)]))


def public_bytes(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def declaration(key, channel_id, slot, message_id, commit, adds):
    """What a commit does to the roster, signed. It names neither an owner nor a standby."""
    place = [channel_id, slot, message_id, sha256(commit)]
    signed = signed_bytes("static-relay/1 commit", [*place, adds, [], [], [], b"", b""])
    return {"adds": adds, "signature": key.sign(signed)}


class Relay:
    """A connection to a relay."""

    def __init__(self, descriptors, host, port, ca, server_name):
        with open(ca, "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        options = [("grpc.ssl_target_name_override", server_name), ("grpc.max_receive_message_length", 8 << 20)]
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.schema = Schema(descriptors)
        self.channel = grpc.secure_channel(target, credentials, options)
        self.server_name = server_name
        self.token = None

    def close(self):
        self.channel.close()

    def health(self, service=""):
        path, request, response = self.schema.method(f"{HEALTH}.Health", "Check")
        check = self.channel.unary_unary(path, request.SerializeToString, response.FromString)
        return check(request(service=service), timeout=60).status

    def call(self, method, **fields):
        """Any unary call; raises Refused. A newer token is taken up."""
        path, request, response = self.schema.method(f"{RELAY}.Relay", method)
        invoke = self.channel.unary_unary(path, request.SerializeToString, response.FromString)
        try:
            answer, call = invoke.with_call(request(**fields), timeout=60, metadata=self._metadata())
        except grpc.RpcError as failure:
            raise self._refused(failure) from failure
        for key, value in call.initial_metadata():
            if key == "static-session":
                self.token = value
        return answer

    def subscribe(self, **fields):
        """The pushes, one after the other."""
        path, request, response = self.schema.method(f"{RELAY}.Relay", "Subscribe")
        stream = self.channel.unary_stream(path, request.SerializeToString, response.FromString)
        return stream(request(**fields), timeout=300, metadata=self._metadata())

    def open(self, key, jwt=""):
        """Gets a session token for unary calls."""
        challenge = self.call("GetChallenge", revision=2)
        answer = self.call("OpenSession", **self.proof("unary", challenge, key, jwt))
        self.token = answer.session_token
        return answer

    def proof(self, purpose, challenge, key, jwt):
        """The fields of an OpenSession."""
        if challenge.relay_name != self.server_name:
            raise ValueError(f"the relay calls itself {challenge.relay_name}")
        agent_nonce = os.urandom(32)
        jwt_hash = sha256(jwt.encode()) if jwt else bytes(32)
        signed = signed_bytes(
            "static-relay/1 session",
            [purpose, 2, challenge.relay_name, challenge.relay_id, challenge.nonce, agent_nonce, jwt_hash, "standard"],
        )
        return {
            "purpose": PURPOSES[purpose],
            "revision": 2,
            "public_key": public_bytes(key),
            "relay_nonce": challenge.nonce,
            "agent_nonce": agent_nonce,
            "jwt": jwt,
            "traffic_profile": TRAFFIC_STANDARD,
            "signature": key.sign(signed),
        }

    def session(self):
        return Session(self)

    def _metadata(self):
        return [("static-session", self.token)] if self.token else []

    def _refused(self, failure):
        for key, value in failure.trailing_metadata() or []:
            if key == "static-error-bin":
                return Refused(failure.code(), self.schema.message(f"{RELAY}.Error").FromString(value))
        return failure


class Session:
    """A session stream: messages cut into cells of 1,024 bytes."""

    def __init__(self, relay):
        self._relay = relay
        self._client_message = relay.schema.message(f"{RELAY}.ClientMessage")
        self._server_message = relay.schema.message(f"{RELAY}.ServerMessage")
        path, self._cell, answer = relay.schema.method(f"{RELAY}.Relay", "Session")
        self._outgoing = queue.SimpleQueue()
        stream = relay.channel.stream_stream(path, self._cell.SerializeToString, answer.FromString)
        self._incoming = stream(iter(self._outgoing.get, None), timeout=300)
        self._next_id = 1
        self.pushes = []

    def open(self, key, jwt=""):
        challenge = self.request("get_challenge", revision=2).get_challenge
        return self.request("open_session", **self._relay.proof("session", challenge, key, jwt)).open_session

    def request(self, field, **fields):
        """Sends a request and waits for its answer; raises Refused. What is pushed meanwhile is kept."""
        message = self._client_message(request_id=self._next_id)
        self._next_id += 1
        body = getattr(message, field)
        body.SetInParent()
        body.MergeFrom(type(body)(**fields))
        self._send_envelope(message.SerializeToString())
        answer = self._server_message.FromString(self._receive_envelope())
        while answer.request_id == 0:
            self.pushes.append(answer)
            answer = self._server_message.FromString(self._receive_envelope())
        if answer.request_id != message.request_id:
            raise ValueError(f"an answer to {answer.request_id}")
        if answer.WhichOneof("body") == "error":
            raise Refused(None, answer.error)
        return answer

    def ping(self, payload):
        self._send_cell(PING, payload)
        kind, answer = self._receive_cell()
        # Whatever comes is filled up to whole units with cover.
        while kind in COVER:
            kind, answer = self._receive_cell()
        return kind == PONG and answer == payload

    def end(self):
        """Ends the stream and tells its status."""
        self._outgoing.put(None)
        for _ in self._incoming:
            pass
        return self._incoming.code()

    def status_after(self, data):
        """Sends a message that may be no cell, and tells the status that the stream ends with."""
        self._outgoing.put(self._cell(data=data))
        try:
            for _ in self._incoming:
                pass
        except grpc.RpcError:
            pass
        return self._incoming.code()

    def _send_envelope(self, envelope):
        pieces = [envelope[at : at + PAYLOAD_BYTES] for at in range(0, len(envelope), PAYLOAD_BYTES)]
        for at, piece in enumerate(pieces):
            last = at == len(pieces) - 1
            kind = WHOLE if len(pieces) == 1 else FIRST if at == 0 else LAST if last else NEXT
            self._send_cell(kind, piece)

    def _send_cell(self, kind, payload):
        cell = struct.pack(">BH", kind, len(payload)) + payload
        self._outgoing.put(self._cell(data=cell.ljust(CELL_BYTES, b"\0")))

    def _receive_envelope(self):
        parts = []
        while True:
            kind, payload = self._receive_cell()
            if kind in (WHOLE, FIRST, NEXT, LAST):
                parts.append(payload)
            if kind in (WHOLE, LAST):
                return b"".join(parts)

    def _receive_cell(self):
        data = next(self._incoming).data
        if len(data) != CELL_BYTES:
            raise ValueError(f"a cell of {len(data)} bytes")
        kind, length = struct.unpack(">BH", data[:3])
        if any(data[3 + length :]):
            raise ValueError("padding that is not zero")
        return kind, data[3 : 3 + length]


def new_key():
    return Ed25519PrivateKey.generate()
