"""Checks the client's bytes against the vectors whose directory is told on standard input; prints how many it checked."""

import hmac
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from relay_client import chain_next, length_prefixed, sha256, signed_bytes


def main():
    folder = Path(json.load(sys.stdin)["folder"])

    def read(name):
        return json.loads((folder / name).read_text("utf-8"))

    checked = {}
    checked["session"] = sum(check_signed(item, session(item)) for item in read("session.json"))
    checked["leave"] = sum(check_signed(item, leave(item)) for item in read("leave.json"))
    checked["commit"] = sum(check_signed(item, commit(item)) for item in read("commit.json"))
    checked["roster"] = sum(check_signed(item, roster(item)) for item in read("roster.json"))
    checked["vouch"] = sum(check_signed(item, vouch(item)) for item in read("vouch.json"))
    checked["receipt"] = sum(check_signed(item, receipt(item)) for item in read("receipt.json"))
    checked["chain"] = check_chain(read("chain.json"))
    checked["invite"] = check_invite(read("invite.json"))
    json.dump(checked, sys.stdout)


def check_signed(item, made):
    """The bytes are the expected ones, and so is their signature."""
    assert made.hex() == item["bytes"], item["about"]
    key = Ed25519PrivateKey.from_private_bytes(unhex(item["seed"]))
    assert key.sign(made).hex() == item["signature"], item["about"]
    return 1


def unhex(value):
    return [unhex(item) for item in value] if isinstance(value, list) else bytes.fromhex(value)


def session(item):
    rate = item["cells_per_second"]
    profile = f"{item['profile']}/{rate}" if rate else item["profile"]
    jwt_hash = sha256(item["jwt"].encode()) if item["jwt"] else bytes(32)
    nonces = [unhex(item["relay_nonce"]), unhex(item["agent_nonce"])]
    place = [item["purpose"], item["revision"], item["relay_name"], unhex(item["relay_id"])]
    return signed_bytes("static-relay/1 session", [*place, *nonces, jwt_hash, profile])


def notice_fields(notice):
    return [unhex(notice["public_key"]), notice["slot"], unhex(notice["leaf_keys"]), unhex(notice["signature"])]


def leave(item):
    assert length_prefixed(notice_fields(item["notice"])).hex() == item["body"], item["about"]
    return signed_bytes("static-relay/1 leave", [unhex(item["channel_id"]), item["slot"], unhex(item["leaf_keys"])])


def commit(item):
    body = unhex(item["commit"])
    notices = [notice_fields(notice) for notice in item["leave_notices"]]
    roster = [unhex(item["adds"]), unhex(item["removes"]), notices, unhex(item["vouches"])]
    change = [*roster, unhex(item["owner"]), unhex(item["standby"])]
    assert length_prefixed([body, *change, unhex(item["signature"])]).hex() == item["body"], item["about"]
    place = [unhex(item["channel_id"]), item["slot"], unhex(item["message_id"]), sha256(body)]
    return signed_bytes("static-relay/1 commit", [*place, *change])


def receipt(item):
    claim = [item["mode"], item["since"], item["index"], unhex(item["hash"]), item["aside"], item["settled"]]
    return signed_bytes("static-relay/1 receipt", [unhex(item["channel_id"]), *claim])


def roster(item):
    place = [unhex(item["channel_id"]), item["slot"], item["index"], unhex(item["hash"])]
    return signed_bytes("static-relay/1 roster", [*place, unhex(item["agent_ids"]), unhex(item["vouched"])])


def vouch(item):
    place = [unhex(item["channel_id"]), item["slot"]]
    return signed_bytes("static-relay/1 vouch", [*place, unhex(item["agent_ids"])])


def check_chain(chain):
    current = sha256(length_prefixed(["static log 1", unhex(chain["channel_id"])]))
    assert current.hex() == chain["start"]
    for entry in chain["entries"]:
        sender, message_id, body = (unhex(entry[name]) for name in ("sender", "message_id", "body"))
        current = chain_next(current, entry["kind"], sender, message_id, body)
        assert current.hex() == entry["hash"], entry["kind"]
    return len(chain["entries"])


def check_invite(invite):
    keys, token, join = invite["keys"], invite["token"], invite["join"]
    admission, welcome = invite["admission"], invite["welcome"]

    def mac(key, made):
        return hmac.digest(unhex(keys[key]), made, "sha256").hex()

    def derived(secret, label):
        # HKDF without salt (RFC 5869); one block is enough for 32 bytes.
        extracted = hmac.digest(bytes(32), secret, "sha256")
        return hmac.digest(extracted, f"static invite 1 {label}".encode() + b"\1", "sha256").hex()

    labels = {"invite_id": "id", "admission": "admission", "members": "members"}
    for name, label in labels.items():
        assert derived(unhex(token["secret"]), label).startswith(keys[name]), name
    members = ["join", "welcome", "box", "seal"]
    for name in members:
        assert derived(unhex(keys["members"]), name) == keys[name], name
    invite_id, key_package = unhex(keys["invite_id"]), unhex(join["key_package"])
    place = [unhex(token["channel_id"]), token["name"], invite_id, unhex(token["owner"])]
    assert mac("join", signed_bytes("static join 1", [*place, unhex(join["nonce"]), key_package])) == join["mac"]
    session_nonce, agent_id = unhex(admission["session_nonce"]), unhex(admission["agent_id"])
    claim = ["static join 1", session_nonce, invite_id, agent_id, sha256(unhex(join["box"]))]
    assert mac("admission", length_prefixed(claim)) == admission["proof"]
    made = [invite_id, sha256(key_package), unhex(welcome["welcome"]), unhex(welcome["epoch_authenticator"])]
    assert mac("welcome", signed_bytes("static welcome 2", made)) == welcome["mac"]
    return len(labels) + len(members) + 3


main()
