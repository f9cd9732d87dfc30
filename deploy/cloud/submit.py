#!/usr/bin/python3
"""Submits a document to a Tandem controller over MQTT, signed; see README.md beside this file."""
import argparse
import base64
import hashlib
import json
import os
import queue
import secrets
import sys
import time
from datetime import datetime, timezone
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def preimage(first, *fields):
    """The text that a signature covers: a line for each field that there is."""
    lines = [first] + [f"{name} {value}" for name, value in fields if value]
    return "".join(line.replace("\n", "\0") + "\n" for line in lines).encode()


def key_id(public):
    return hashlib.sha256(public.public_bytes(*RAW)).hexdigest()[:16]


def make_key(args):
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with os.fdopen(os.open(args.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
        f.write(pem)
    print(args.name, base64.b64encode(key.public_key().public_bytes(*RAW)).decode())


def signed(args, document):
    """The payload of a submission, and its ID."""
    with open(args.key, "rb") as f:
        key = serialization.load_pem_private_key(f.read(), None)
    now = datetime.now(timezone.utc).isoformat(timespec="microseconds").removesuffix("+00:00").rstrip("0").rstrip(".")
    head = {"v": 1, "id": args.id or secrets.token_hex(8), "from": args.sender, "time": now + "Z"}
    if args.try_for:
        head |= {"mode": "try", "confirmWithin": args.try_for}
    if args.force:
        head["force"] = True
    if args.name:
        head["name"] = args.name
    if args.all_nodes:
        head["allNodes"] = True
    covered = preimage(
        "tandem/1/submission", ("unit", args.unit), ("what", args.kind), ("id", head["id"]), ("from", head["from"]),
        ("time", head["time"]), ("mode", head.get("mode")), ("confirmWithin", head.get("confirmWithin")),
        ("force", "true" if args.force else ""), ("document", "sha256:" + hashlib.sha256(document).hexdigest()),
        ("name", args.name), ("allNodes", "true" if args.all_nodes else ""))
    sig = {"kid": key_id(key.public_key()), "ed25519": base64.b64encode(key.sign(covered)).decode()}
    text = json.dumps(head)[:-1].encode() + b',"document":' + document + b',"sig":' + json.dumps(sig).encode() + b"}"
    return text, head["id"]


def verified(args, message, covered):
    """Whether the controller has signed a message."""
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(args.controller_key))
    try:
        public.verify(base64.b64decode(message.get("sig", {}).get("ed25519", "")), covered)
        return True
    except InvalidSignature:
        return False


def answer_preimage(args, answer):
    return preimage(
        "tandem/1/answer", ("unit", args.unit), ("what", args.kind), ("id", answer["id"]),
        ("version", answer.get("version")), ("state", answer["state"]), ("error", answer.get("error", {}).get("code")),
        ("time", answer.get("time")), ("of", answer.get("of")))


def status_preimage(args, status):
    trial = status.get("trial", {})
    return preimage(
        "tandem/1/status", ("unit", args.unit), ("epoch", status["epoch"]), ("rev", status["rev"]),
        ("time", status["time"]), ("state", status["state"]), ("version", status["version"]),
        ("error", status.get("error", {}).get("code")), ("at", status["at"]), ("trial", trial.get("version")),
        ("trialRev", trial.get("rev")), ("deadline", trial.get("deadline")))


def submit(args):
    with open(args.document, "rb") as f:
        document = f.read().strip()
    try:
        json.loads(document)
    except ValueError as e:
        print(f"{args.document} is no JSON: {e}", file=sys.stderr)
        return 2
    payload, name = signed(args, document)
    of = "sha256:" + hashlib.sha256(payload).hexdigest()
    inbox = f"tandem/1/{args.unit}/inbox/{args.kind}"
    for answer in heard(args, args.kind, lambda client: client.publish(inbox, payload, qos=1)):
        if answer.get("id") != name:
            continue
        if args.controller_key and answer.get("of") != of:
            print("an answer to another submission with this ID is passed over", file=sys.stderr)
            continue
        if args.controller_key and not verified(args, answer, answer_preimage(args, answer)):
            print("an answer that the controller has not signed is passed over", file=sys.stderr)
            continue
        print(json.dumps(answer))
        return 0 if answer["state"] == "accepted" else 2
    print(f"no answer within {args.wait} s", file=sys.stderr)
    return 3


def status(args):
    for message in heard(args, "status", lambda client: None):
        if "part" in message:  # of the status of the whole unit
            continue
        try:
            good = verified(args, message, status_preimage(args, message))
        except KeyError:
            good = False
        if good:
            print(json.dumps(message))
            return 0
        print("a status that the controller has not signed is passed over", file=sys.stderr)
    print(f"no status within {args.wait} s", file=sys.stderr)
    return 3


def heard(args, what, begin):
    """The messages on an outbox topic, until args.wait is over; begin is called when they are subscribed to."""
    messages = queue.Queue()
    client = mqtt.Client(client_id=args.user, clean_session=True)
    client.username_pw_set(args.user, os.environ.get("TANDEM_PASSWORD"))
    url = urlsplit(args.broker)
    if url.scheme == "tls":
        client.tls_set(ca_certs=args.ca, certfile=args.cert, keyfile=args.cert_key)
    client.on_connect = lambda c, *_: c.subscribe(f"tandem/1/{args.unit}/outbox/{what}", qos=1)
    client.on_subscribe = lambda c, *_: begin(c)
    client.on_message = lambda c, _, m: messages.put(m.payload)
    client.connect(url.hostname, url.port, keepalive=30)
    client.loop_start()
    until = time.monotonic() + args.wait
    try:
        while (left := until - time.monotonic()) > 0:
            try:
                message = json.loads(messages.get(timeout=left))
            except (queue.Empty, ValueError):
                continue
            if isinstance(message, dict):
                yield message
    finally:
        client.disconnect()
        client.loop_stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    make = verbs.add_parser("key", help="make a key, and print the line for the controller's --submitters")
    make.add_argument("key", help="file to be made")
    make.add_argument("--name", default="cloud", help="of the submitter (default: cloud)")
    make.set_defaults(run=make_key)
    send = verbs.add_parser("submit", help="sign and submit a document; 0: accepted, 2: refused, 3: no answer")
    send.add_argument("document", help="file with JSON")
    send.add_argument("--key", required=True, help="file of the submitter's key")
    send.add_argument("--kind", default="config", help="config, workloads, policies or desired (default: config)")
    send.add_argument("--name", help="of the policy")
    send.add_argument("--all-nodes", action="store_true", help="the policy may hit every node")
    send.add_argument("--controller-key", help="the controller's public key in base64, to verify answers with")
    send.add_argument("--id", help="of the submission (default: random)")
    send.add_argument("--from", dest="sender", default="submit.py", help="who submits, for the journal")
    send.add_argument("--try", dest="try_for", metavar="PT2M", help="roll it back unless it is confirmed so soon")
    send.add_argument("--force", action="store_true", help="also if the same document has failed before")
    send.set_defaults(run=submit)
    show = verbs.add_parser("status", help="show the unit's status, verified; 0: shown, 3: none came")
    show.add_argument("--controller-key", required=True, help="the controller's public key in base64")
    show.set_defaults(run=status)
    for verb in send, show:
        verb.add_argument("--unit", required=True)
        verb.add_argument("--broker", required=True, help="such as tls://broker:8883; tcp:// on the same machine")
        verb.add_argument("--user", default="cloud/cloud", help="user name and client ID; password: TANDEM_PASSWORD")
        verb.add_argument("--ca", help="file of the unit's CA, for tls://")
        verb.add_argument("--cert", help="file of a certificate of cloud/NAME, for tls://")
        verb.add_argument("--cert-key", help="file of its key")
        verb.add_argument("--wait", type=float, default=60, help="seconds for what is to come (default: 60)")
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
