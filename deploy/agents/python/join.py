#!/usr/bin/python3
"""Joining a unit, and what the controller's join door answers, as shared/docs/wire.md has it."""
import argparse
import base64
import hashlib
import http.client
import json
import os
import socket
import ssl
import struct
import sys
import time
import zlib
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from messages import Refused, compact, listed_keys, parse

SERVER = "controller.tandem.internal"  # the name in every certificate of a controller
EMPTY = {"trust": {"keys": {}, "rev": 0, "signer": "", "epoch": 0, "newest": 0, "heard": [0, "0001-01-01T00:00:00Z"]},
         "floor": {}, "kinds": {}, "events": [], "newest": 0}


def write(path, data):
    """Replaces a file so that a crash leaves the old content or the new one."""
    with open(path + ".new", "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


class ByName(ssl.SSLContext):
    """A context that expects one name of the other side, whatever its address is."""
    expected = SERVER

    def wrap_socket(self, sock, **options):
        return super().wrap_socket(sock, **{**options, "server_hostname": self.expected})


def tls(ca=None, own=None, expected=SERVER):
    context = ByName(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.expected = ssl.TLSVersion.TLSv1_3, expected
    if ca:
        context.load_verify_locations(ca)
    else:  # only to look at the other side's certificates
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if own:
        context.load_cert_chain(own)
    return context


def ask_door(door, path, message, context):
    url = urlsplit(door)
    c = http.client.HTTPSConnection(url.hostname, url.port, timeout=10, context=context)
    try:
        c.request("POST", path, compact(message), {"Content-Type": "application/json"})
        answer = c.getresponse()
        value, _ = parse(answer.read(65536))
        if answer.status != 200:
            raise Refused(value["error"]["code"], value["error"]["message"], path)
        return value
    finally:
        c.close()


def read_token(text, node):
    """Of a token: the node's name, the secret, the CA's SHA-256. That of a batch leaves the name to the node."""
    text = text.strip().removeprefix("tdm1.")
    try:
        token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        whole = struct.unpack(">I", token[-4:])[0] == zlib.crc32(token[:-4]) and len(token) == 54 + token[1]
    except (ValueError, struct.error, IndexError):
        whole = False
    if not whole:
        sys.exit("this is not a whole join token")
    name, (secret, fingerprint) = token[2:2 + token[1]].decode(), struct.unpack("16s32s", token[2 + token[1]:-4])
    if token[0] == 2:
        return node or socket.gethostname(), secret, fingerprint
    if token[0] != 1:
        sys.exit("this token is newer than this agent")
    if node not in (None, name):
        sys.exit(f"the token is for the node {name}, not {node}")
    return name, secret, fingerprint


def own_key(path):
    """The key that the node asks with: an operator may approve it, so a later try has the same one."""
    if pem := read(path):
        return serialization.load_pem_private_key(pem, None)
    key = ec.generate_private_key(ec.SECP256R1())
    write(path, pem_of(key))
    return key


def pem_of(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


def admitted(args, message, context):
    """Asks until the door has an answer: who is to be approved asks again each minute."""
    while True:
        try:
            return ask_door(args.controller, "/join", message, context)
        except Refused as e:
            if e.code != "unavailable":
                sys.exit(f"the controller refuses: {e}")
            said = e
        except (OSError, http.client.HTTPException) as e:
            said = e
        print(f"{said}; next try in {args.wait:g} s", file=sys.stderr, flush=True)
        time.sleep(args.wait)


def join(args):
    """Uses a token; leaves identity.json, ca.pem, own.pem and the first state in the directory."""
    name, secret, fingerprint = read_token(sys.stdin.readline(), args.node)
    probe, url = tls(), urlsplit(args.controller)
    c = http.client.HTTPSConnection(url.hostname, url.port, timeout=10, context=probe)
    c.connect()  # sends nothing: it looks for the CA that the token names. Public from Python 3.13 on
    chain = c.sock._sslobj.get_unverified_chain() or []
    c.close()
    ca = next((x for x in (ssl.PEM_cert_to_DER_cert(x.public_bytes()) for x in chain)
               if hashlib.sha256(x).digest() == fingerprint), None)
    if ca is None:
        sys.exit("whoever answers there is not the controller of this token")
    os.makedirs(args.dir, mode=0o700, exist_ok=True)
    at = lambda name: os.path.join(args.dir, name)
    write(at("ca.pem"), ssl.DER_cert_to_PEM_cert(ca).encode())
    key = own_key(at("joining.pem"))
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    a = admitted(args, {"node": name, "secret": secret.hex(), "csr": base64.b64encode(
        csr.public_bytes(serialization.Encoding.DER)).decode()}, tls(at("ca.pem")))
    write(at("own.pem"), pem_of(key) + ssl.DER_cert_to_PEM_cert(base64.b64decode(a["certificate"])).encode())
    state = load(at("state.json")) or EMPTY
    state["trust"] = {**state["trust"], "keys": listed_keys(a["unitKeys"]), "rev": a.get("keysRev", 0), "signer": ""}
    state["floor"], state["key"] = a.get("floor", {}), ""
    write(at("state.json"), compact(state))
    write(at("identity.json"), compact({"unit": a["unit"], "node": a["node"], "door": args.controller,
                                        "brokers": a["brokers"]}))
    os.remove(at("joining.pem"))  # own.pem has it; a node that joins anew has a new one


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def load(path):
    data = read(path)
    return None if data is None else json.loads(data)


def main():
    p = argparse.ArgumentParser(description="joins a unit with the token on standard input")
    p.add_argument("--controller", required=True, help="the join door, https://HOST:PORT")
    p.add_argument("--dir", required=True, help="the node's state, as agent.py has it")
    p.add_argument("--node", help="with a batch's token, the name that this node wants; else its host name")
    p.add_argument("--wait", type=float, default=60, help="seconds until it asks again while it is not approved")
    join(p.parse_args())


if __name__ == "__main__":
    main()
