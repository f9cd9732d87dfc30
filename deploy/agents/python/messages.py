"""Reading and verifying messages, as shared/docs/wire.md has it. Every function that finds fault raises Refused."""
import base64
import hashlib
import hmac
import json
import re
from datetime import datetime, timezone

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_MESSAGE, MAX_DEPTH, MAX_KEYS = 262144, 128, 16
SECOND = 10**9  # times are whole nanoseconds since 1970


class Refused(Exception):
    """An error of the contract."""

    def __init__(self, code, message, path=""):
        super().__init__(f"{code}: {message} {path}".strip())
        self.code = code
        self.object = {"code": code, "message": message[:1000], **({"path": path[:500]} if path else {})}


# Reading. Strict: no unknown, doubled or missing members, and raw values byte for byte.

def once(pairs):
    if len({k for k, _ in pairs}) < len(pairs):
        raise Refused("duplicate", "a name appears twice in one object")
    return dict(pairs)


def no_constant(text):
    raise ValueError(f"{text} is no JSON")


DECODER = json.JSONDecoder(object_pairs_hook=once, parse_constant=no_constant)


def parse(payload):
    """The value of a JSON text, and the exact bytes of each member if it is an object."""
    try:
        text = payload.decode()
        depth = 0
        for c in re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.S):
            depth += (c in "[{") - (c in "]}")
            if depth > MAX_DEPTH:
                raise Refused("malformed", f"nested deeper than {MAX_DEPTH}")
        value, raw = DECODER.decode(text), {}
        skip = lambda i: re.compile(r"[ \t\r\n]*").match(text, i).end()
        i = skip(0) + 1
        while isinstance(value, dict) and len(raw) < len(value):
            key, i = DECODER.raw_decode(text, skip(i))
            start = skip(skip(i) + 1)  # after the colon
            _, i = DECODER.raw_decode(text, start)
            raw[key], i = text[start:i].encode(), skip(i) + 1  # after the comma
        json.dumps(value, ensure_ascii=False).encode()  # no half of a surrogate pair
        return value, raw
    except (ValueError, RecursionError) as e:
        raise Refused("malformed", str(e)) from None


def fields(value, spec, path=""):
    """Checks an object's members; a name in spec that ends in ? is optional. null is absent."""
    if not isinstance(value, dict):
        raise Refused("bad-value", "an object is expected", path)
    spec = {k.rstrip("?"): (check, k.endswith("?")) for k, check in spec.items()}
    for k in value:
        if k not in spec:
            raise Refused("unknown-field", k[:100], f"{path}/{k}")
    out = {k: v for k, v in value.items() if v is not None}
    for k, (check, optional) in spec.items():
        if k not in out:
            if not optional:
                raise Refused("missing", "a required field is absent", f"{path}/{k}")
        elif isinstance(check, dict):
            out[k] = fields(out[k], check, f"{path}/{k}")
        elif not check(value[k]):
            raise Refused("bad-value", "not what the contract says", f"{path}/{k}")
    return out


def matches(pattern):
    return lambda v: isinstance(v, str) and re.fullmatch(pattern, v) is not None


def integer(least, most=2**64 - 1):
    return lambda v: type(v) is int and least <= v <= most


def of_bytes(length=None):
    def check(v):
        try:
            return isinstance(v, str) and length in (None, len(base64.b64decode(v, validate=True)))
        except ValueError:
            return False
    return check


def instant(v):
    """A time in RFC 3339 as nanoseconds; None if it is none."""
    m = re.fullmatch(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", str(v))
    try:
        at = datetime.fromisoformat(m[1].upper() + m[3].upper().replace("Z", "+00:00"))
    except (TypeError, ValueError):
        return None
    return ((at - datetime.fromtimestamp(0, timezone.utc)) // (at.resolution * 10**6)) * SECOND + int(
        (m[2] or "0").ljust(9, "0"))


def stamp(ns):
    """A time as the preimages and proofs write it."""
    fraction = f".{ns % SECOND:09}".rstrip("0").rstrip(".")
    return datetime.fromtimestamp(ns // SECOND, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def span(v):
    """A duration in seconds; None if it is none. Weeks and days are of fixed length; there are no years and months."""
    number = r"(?:(\d+(?:\.\d+)?)%s)?"
    pattern = "P" + number % "W" + number % "D" + "(T" + number % "H" + number % "M" + number % "S" + ")?"
    m = re.fullmatch(pattern, v) if isinstance(v, str) else None
    if not m or v[-1] in "PT":
        return None
    return sum(float(n or 0) * f for n, f in zip((m[1], m[2], m[4], m[5], m[6]), (604800, 86400, 3600, 60, 1)))


NAME, PLAIN = matches(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"), lambda v: matches(r"[^\x00-\x1f\x7f-\x9f]+")(v) and len(
    v.encode()) <= 256
HASH, TIME, DURATION = matches("sha256:[0-9a-f]{64}"), lambda v: instant(v) is not None, lambda v: span(v) is not None
ANY, COUNT, ONE = lambda v: True, integer(1), integer(1, 1)
SIG = {"kid": PLAIN, "ed25519": of_bytes(64), "path?": of_bytes()}
REF = {"url": lambda v: isinstance(v, str) and len(v) <= 2048, "hash": HASH, "size?": integer(0)}
DESIRED = {"v": ONE, "unit": NAME, "node": NAME, "kind": NAME, "epoch": COUNT, "rev": COUNT, "version": PLAIN,
           "hash": HASH, "issued": TIME, "mode": matches("apply|try"), "confirmWithin?": DURATION, "body?": ANY,
           "ref?": REF, "sig?": SIG}
REQUEST = {"v": ONE, "unit": NAME, "node": NAME, "id": PLAIN, "method": PLAIN, "notAfter": TIME, "params?": ANY,
           "sig?": SIG}
BEACON = {"v": ONE, "unit": NAME, "epoch": COUNT, "up": lambda v: type(v) is bool, "time": TIME,
          "keys": lambda v: isinstance(v, list) and 0 < len(v) <= MAX_KEYS, "keysRev?": integer(0),
          "jitter?": lambda v: v == "" or DURATION(v), "maintenance?": TIME, "sig?": SIG}


def read(payload, spec):
    if len(payload) > MAX_MESSAGE:
        raise Refused("too-large", f"{len(payload)} bytes")
    value, raw = parse(payload)
    if isinstance(value, dict) and value.get("v", 1) != 1:
        raise Refused("wrong-version", "not version 1 of the wire", "/v")
    return fields(value, spec), raw


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def listed_keys(keys):
    """The keys of a list, by ID, in its order."""
    out = {}
    for i, k in enumerate(keys):
        fields(k, {"kid": PLAIN, "ed25519": of_bytes(32)}, f"/keys/{i}")
        key = base64.b64decode(k["ed25519"])
        if hashlib.sha256(key).hexdigest()[:16] != k["kid"] or k["kid"] in out:
            raise Refused("bad-value", "not a key under its own ID", f"/keys/{i}")
        out[k["kid"]] = k["ed25519"]
    return out


def verify(lines, sig, keys):
    """Refuses a message whose signature is not by one of the keys."""
    if sig is None:
        raise Refused("unsigned", "no signature")
    if sig["kid"] not in keys:
        raise Refused("unknown-key", f"key {sig['kid']} is not believed", "/sig/kid")
    message = "".join(line + "\n" for line in lines).encode()
    if "path" in sig:
        path = base64.b64decode(sig["path"])
        if not path or len(path) % 32 or len(path) > 64 * 32:
            raise Refused("bad-signature", "not a path", "/sig/path")
        h = hashlib.sha256(b"\0" + message).digest()
        for i in range(0, len(path), 32):
            h = hashlib.sha256(b"\1" + b"".join(sorted((h, path[i:i + 32])))).digest()
        message = b"tandem/1/root\n" + h
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(keys[sig["kid"]]))
        key.verify(base64.b64decode(sig["ed25519"]), message)
    except InvalidSignature:
        raise Refused("bad-signature", "the signature does not match", "/sig") from None


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# Preimages: what is signed, line for line.

def desired_lines(d):
    return ["tandem/1/desired", d["unit"], d["node"], d["kind"], str(d["epoch"]), str(d["rev"]), d["version"],
            d["hash"], d["mode"], d.get("confirmWithin", "")]


def request_lines(q, params):
    return ["tandem/1/request", q["unit"], q["node"], q["id"], q["method"], stamp(instant(q["notAfter"])), sha(params)]


def beacon_lines(b):
    lines = ["tandem/1/beacon", b["unit"], str(b["epoch"]), str(b["up"]).lower(), stamp(instant(b["time"]))]
    for k in b["keys"]:
        lines += [k["kid"], base64.b64decode(k["ed25519"]).hex()]
    lines += [b.get("jitter", "")] + ([f"keys {b['keysRev']}"] if b.get("keysRev") else [])
    return lines + ([f"maintenance {stamp(instant(b['maintenance']))}"] if "maintenance" in b else [])


def prove(key, topic, message, epoch, at):
    """The message with its proof."""
    proof = hmac.digest(key, f"{topic}\n{epoch}\n{at}\n".encode() + message, "sha256")
    return b"%s,%s,%s}" % (message[:-1], b'"heard":' + compact({"epoch": epoch, "time": at}),
                           b'"proof":"' + base64.b64encode(proof) + b'"')


def judge(version, body, limit):
    """Refuses a body that this node would not take. A product has its own rules here."""
    c = fields(parse(body)[0], {"formatVersion": ANY, "version": PLAIN, "node?": ANY, "nodeGroupSubject?": ANY,
                                "alertRules?": ANY, "resourceRatios?": ANY, "labels?": ANY,
                                "priority?": integer(0, 2**32 - 1)})
    if c["formatVersion"] != "7":
        raise Refused("wrong-version", "not format 7", "/formatVersion")
    if c["version"] != version:
        raise Refused("bad-value", "not the version of the document", "/version")
    if c.get("priority", 0) > limit:
        raise Refused("bad-value", f"above this node's limit of {limit}", "/priority")
