#!/usr/bin/python3
"""A small agent for Tandem, written from shared/docs/wire.md; see README.md beside this file."""
import argparse
import base64
import hashlib
import json
import os
import platform
import random
import signal
import sys
import time
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt

from join import EMPTY, SERVER, ask_door, load, tls, write
from messages import (ANY, BEACON, DESIRED, REQUEST, SECOND, Refused, beacon_lines, compact, desired_lines, fields,
                      instant, integer, judge, listed_keys, parse, prove, read, request_lines, sha, span, stamp, verify)

MAX_BODY, MAX_EVENTS, SKEW, DAY = 65536, 1000, 30 * SECOND, 86400 * SECOND


class Agent:
    """The node. Everything happens on one thread, in session and tick."""

    def __init__(self, args):
        self.args, self.stopping, self.session, self.client, self.offset, self.leap = args, False, 0, None, 0, None
        self.state = load(self.at("state.json")) or json.loads(compact(EMPTY))
        self.identity = load(self.at("identity.json")) or {"unit": args.unit, "node": args.node, "brokers": []}
        self.unit, self.node = self.identity["unit"], self.identity["node"]
        self.boot, self.seqs, self.reports = os.urandom(4).hex(), {}, {}
        self.answers, self.waiting, self.refusals, self.until = {}, {}, {}, {}
        self.again_at = self.named = self.asked = None
        self.greeted, self.beat_at = False, 0
        shard = hashlib.sha256(self.node.encode()).hexdigest()[:2]
        self.topic = f"tandem/1/{self.unit}/node/{shard}/{self.node}/"
        for kind, k in self.state["kinds"].items():
            if k["last"]["state"] in ("received", "applying"):
                k["last"]["attempt"] += 1
                self.carry_out(kind, k)
            elif k["last"]["state"] == "trying":  # never longer than it may be, however the clock was set
                left = min((k["until"] - time.time_ns()) / SECOND, span(k["try"]))
                self.until[kind] = time.monotonic() + left
            else:
                self.restore(kind)

    def at(self, name):
        return os.path.join(self.args.dir, name)

    def save(self):
        write(self.at("state.json"), compact(self.state))

    # What the node says.

    def say(self, leaf, message, retain=False):
        if not self.client:
            return
        payload = compact({"v": 1, "node": self.node, **message})
        if self.state.get("key"):
            payload = prove(base64.b64decode(self.state["key"]), self.topic + leaf, payload,
                            *self.state["trust"]["heard"])
        self.client.publish(self.topic + leaf, payload, qos=1, retain=retain)

    def live(self):
        self.named, self.beat_at = self.state["trust"]["heard"], time.monotonic() + random.uniform(48, 72)
        self.say("live", {"boot": self.boot, "session": self.session, "up": True, "seqs": self.seqs,
                          "events": self.state["newest"]}, retain=True)

    def note(self, kind, content):
        """Takes over what is to be reported of a kind; what is said again keeps its number."""
        if self.reports.get(kind) != content:
            self.reports[kind] = json.loads(compact(content))
            self.seqs[kind] = self.seqs.get(kind, 0) + 1

    def report(self, kind, content=None):
        k = self.state["kinds"].get(kind)
        if k:
            content = content or {x: k[x] for x in ("running", "last") if k.get(x)}
        self.note(kind, content or self.reports[kind])
        self.say("reported/" + kind, {"kind": kind, "boot": self.boot, "seq": self.seqs[kind], **self.reports[kind]},
                 retain=True)

    def report_all(self):
        self.again_at = None
        self.note("info", {"detail": {
            "type": self.args.type, "os": platform.system().lower(), "arch": platform.machine(),
            "cpus": os.cpu_count(), "ram": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "attributes": {"tandem.workloads": "none", "tandem.bittorrent": "none"},
            "agentVersion": "python-1", "keys": list(self.state["trust"]["keys"])}})
        for kind, k in self.state["kinds"].items():
            self.note(kind, {x: k[x] for x in ("running", "last") if k.get(x)})
        self.live()
        for kind in self.reports:
            self.report(kind)

    def event(self, what, error, detail):
        """Emits an event; of one type at most 20 at once, and one in 10 s. Those left out are counted."""
        left, at, out = self.refusals.get(what, (20, time.monotonic(), 0))
        left = min(20, left + (time.monotonic() - at) / 10)
        self.refusals[what] = (left, time.monotonic(), out + 1) if left < 1 else (left - 1, time.monotonic(), 0)
        if left < 1:
            return
        s = self.state
        s["newest"] += 1
        s["events"].append({"boot": self.boot, "seq": s["newest"], "at": stamp(time.time_ns()), "type": what,
                            "error": error.object, "detail": {**detail, **({"suppressed": out} if out else {})}})
        if len(s["events"]) > MAX_EVENTS:  # the next one says how many are gone
            gone = s["events"].pop(0)
            s["events"][0]["lost"] = gone.get("lost", 0) + 1 + s["events"][0].get("lost", 0)
        self.save()
        self.say("event", s["events"][-1])

    # What the node hears.

    def message(self, _client, _data, m):
        leaf = m.topic.removeprefix(self.topic)
        if not m.payload:
            return  # what was retained is gone: that takes nothing back
        if leaf == f"tandem/1/{self.unit}/controller":
            self.hear(leaf, self.beacon, m.payload, m.retain)
        elif leaf == "request":
            self.hear(leaf, self.request, m.payload)
        else:
            self.hear(leaf, self.desired, leaf.removeprefix("desired/"), m.payload)

    def hear(self, leaf, what, *arguments):
        try:
            what(*arguments)
        except Refused as e:
            key = what == self.beacon and e.code in ("unknown-key", "stale")
            self.event("key-refused" if key else "refused-message", e, {
                "topic": leaf if what == self.beacon else (self.topic + leaf)[:256]})
            if key and e.code == "unknown-key":
                self.ask_keys()

    def beacon(self, payload, retained):
        b, _ = read(payload, BEACON)
        t, listed, kid = self.state["trust"], listed_keys(b["keys"]), b.get("sig", {}).get("kid")
        if b["unit"] != self.unit:
            raise Refused("wrong-target", "for another unit", "/unit")
        verify(beacon_lines(b), b.get("sig"), t["keys"] or listed)
        order = list(t["keys"])
        if kid not in listed:
            raise Refused("bad-value", "the key that signs is not listed", "/keys")
        if t["signer"] in order and kid in order[:order.index(t["signer"])]:
            raise Refused("stale", "this key signs no beacons any more", "/sig/kid")
        if not t["keys"] or b.get("keysRev", 0) > t["rev"]:
            t["keys"], t["rev"] = listed, b.get("keysRev", 0)
            self.again_at = self.again_at or time.monotonic()  # info says which keys the node believes
        t["signer"], at, higher = kid, instant(b["time"]), b["epoch"] > t["epoch"]
        if higher:
            if t["epoch"]:
                self.again_at = time.monotonic() + random.uniform(0, min(span(b.get("jitter", "")) or 0, 600))
            t["epoch"] = b["epoch"]
        if b["epoch"] == t["epoch"]:
            later, skew = higher or at > t["newest"], at - time.time_ns()
            leaps = self.leaps(at, skew, b["up"] and not retained)
            if later and not leaps:
                t["newest"], t["heard"] = at, [b["epoch"], stamp(at)]
            if b["up"] and not retained and not leaps and (later or abs(skew) <= SKEW):
                t["newest"], self.offset = at, skew
        self.save()
        if not self.greeted:  # live names the newest beacon, once this session has heard one
            self.greeted = True
            self.live() if self.named != t["heard"] else None
        waiting, self.waiting = self.waiting, {}
        for kind, (_, payload) in waiting.items():
            self.hear("desired/" + kind, self.desired, kind, payload)

    def leaps(self, at, skew, now):
        """Whether a beacon's time is too far ahead of what is expected, and has not been borne out for ten minutes."""
        expected = max(time.time_ns() + self.offset, self.state["trust"]["newest"])
        if not self.state["trust"]["newest"] or at - expected <= DAY or abs(skew) <= SKEW:
            self.leap = None if now else self.leap
            return False
        if now:
            first, since = self.leap or (at, time.monotonic())
            own = time.monotonic() - since
            if abs((at - first) / SECOND - own) > SKEW / SECOND:
                first, since, own = at, time.monotonic(), 0
            self.leap = (first, since)
            return own < 600
        return True

    def door(self, path):
        """What the join door answers; None if it cannot be reached now."""
        try:
            return ask_door(self.identity["door"], path, {}, tls(self.at("ca.pem"), self.at("own.pem")))
        except (OSError, Refused) as e:
            print(path, e, file=sys.stderr)

    def ask_keys(self):
        """Asks for the keys after a rotation that this node missed, at most once a minute."""
        if "door" not in self.identity or self.asked and time.monotonic() - self.asked < 60:
            return
        self.asked, t, a = time.monotonic(), self.state["trust"], self.door("/keys")
        if a:
            t["keys"], t["rev"], t["signer"] = listed_keys(a["unitKeys"]), a.get("keysRev", 0), ""
            self.save()
            self.report_all()

    def desired(self, kind, payload):
        d, raw = read(payload, DESIRED)
        if (d["unit"], d["node"], d["kind"]) != (self.unit, self.node, kind):
            raise Refused("wrong-target", "for another unit, node or kind")
        if ("body" in d) == ("ref" in d) or (d["mode"] == "try") != ("confirmWithin" in d):
            raise Refused("bad-value", "body or ref, one of them; confirmWithin with mode try")
        if not self.state["trust"]["keys"]:  # before the first beacon nobody can be believed
            if len(self.waiting) < 16 or kind in self.waiting:
                held = self.waiting.get(kind, ([0, 0], b""))
                self.waiting[kind] = max(held, ([d["epoch"], d["rev"]], payload))
            return
        verify(desired_lines(d), d.get("sig"), self.state["trust"]["keys"])
        body = raw.get("body", b"")
        if len(body) > MAX_BODY:
            raise Refused("too-large", f"a body of {len(body)} bytes", "/body")
        if "body" in d and sha(body) != d["hash"]:
            raise Refused("hash-mismatch", "the body has another hash", "/hash")
        ref = {x: d[x] for x in ("epoch", "rev", "version", "hash")}
        place, k = [d["epoch"], d["rev"]], self.state["kinds"].get(kind)
        if kind != "config":  # nothing of it is kept: a newer agent may know the kind
            e = Refused("not-supported", "this agent does not know documents of this kind", "/kind")
            self.report(kind, {"last": self.attempt(ref, "rejected", e)})
            return
        floor, own = self.state["floor"], self.state["floor"].get("kinds", {}).get(kind)
        least = [own["epoch"], own["rev"]] if own else [floor.get("epoch", 0), floor.get("rev", 0) + 1]
        if floor and place < least or k and place < k["high"]:
            self.event("stale", Refused("stale", "a newer document is known"), {"kind": kind, **ref})
        elif k and place == k["high"] and ref["hash"] == k["highHash"]:
            self.report(kind)
        elif k and place == k["high"]:
            e = Refused("fork", "another document with this epoch and rev was accepted", "/hash")
            self.event("fork", e, {"kind": kind, **ref})
            self.report(kind, {x: k[x] for x in k if x == "running"} | {"last": self.attempt(ref, "rejected", e)})
        else:
            k = self.state["kinds"].setdefault(kind, {})
            k.update(high=place, highHash=d["hash"], doc=body.decode(), last=self.attempt(ref, "received"),
                     **{"try": d.get("confirmWithin", "")})
            self.until.pop(kind, None)
            self.save()
            self.carry_out(kind, k)

    def attempt(self, ref, state, error=None):
        at = stamp(time.time_ns())
        return {**ref, "state": state, "attempt": 1, "at": at, **({"error": error.object} if error else {})}

    # What the node does with its documents.

    def turn(self, kind, state, error=None):
        k = self.state["kinds"][kind]
        k["last"].update(state=state, at=stamp(time.time_ns()), **({"error": error.object} if error else {}))
        self.save()
        self.report(kind)

    def carry_out(self, kind, k):
        """Applies the document that was accepted: its intent is on the disk."""
        ref = {x: k["last"][x] for x in ("epoch", "rev", "version", "hash")}
        try:
            if not k["doc"]:
                raise Refused("not-supported", "this agent does not fetch documents", "/ref")
            judge(ref["version"], k["doc"].encode(), self.args.max_priority)
        except Refused as e:
            self.restore(kind)  # a trial that this document has ended may be in force
            self.turn(kind, "rejected", e)
            return
        self.turn(kind, "applying")
        try:
            write(self.at("config.json"), k["doc"].encode())
        except OSError as e:
            self.restore(kind)
            self.turn(kind, "failed", Refused("apply-failed", str(e)))
            return
        if k["try"]:
            self.until[kind] = time.monotonic() + span(k["try"])
            k["until"] = time.time_ns() + int(span(k["try"]) * SECOND)
            self.turn(kind, "trying")
        else:
            self.keep(kind, k, ref)

    def keep(self, kind, k, ref):
        self.until.pop(kind, None)
        k.update(running=ref, good=k["doc"])
        self.turn(kind, "installed")

    def restore(self, kind):
        """Puts back what was confirmed last."""
        k = self.state["kinds"][kind]
        if "good" in k:
            write(self.at("config.json"), k["good"].encode())
        elif os.path.exists(self.at("config.json")):
            os.remove(self.at("config.json"))

    # Requests.

    def request(self, payload):
        q, raw = read(payload, REQUEST)
        if (q["unit"], q["node"]) != (self.unit, self.node):
            raise Refused("wrong-target", "for another unit or node")
        verify(request_lines(q, raw.get("params", b"")), q.get("sig"), self.state["trust"]["keys"])
        if q["id"] not in self.answers:  # one that comes again gets the same answer and has no second effect
            try:
                now = max(time.time_ns() + self.offset, self.state["trust"]["newest"])
                if now > instant(q["notAfter"]):
                    raise Refused("expired", "the request came too late", "/notAfter")
                answer = {"result": self.do(q["method"], raw.get("params", b"{}"))}
            except Refused as e:
                answer = {"error": e.object}
            self.answers[q["id"]] = answer
            self.answers = dict(list(self.answers.items())[-64:])
        self.say("reply", {"id": q["id"], **self.answers[q["id"]]})

    def do(self, method, params):
        if method == "check":
            p, raw = parse(params)
            p = fields(p, {"kind": ANY, "version": ANY, "body": ANY}, "/params")
            try:
                if p["kind"] == "config":
                    judge(p["version"], raw["body"], self.args.max_priority)
                    return {"ok": True}
            except Refused as e:
                return {"ok": False, "errors": [e.object]}
            raise Refused("not-supported", "no documents of this kind", "/params/kind")
        if method == "report":
            self.report_all()
        elif method == "events":
            after = fields(parse(params)[0], {"after": integer(0)}, "/params")["after"]
            if after <= self.state["newest"]:  # else the controller speaks of another life of this node
                self.state["events"] = [e for e in self.state["events"] if e["seq"] > after]
                self.save()
            for e in self.state["events"]:
                self.say("event", e)
        elif method == "confirm":
            p = fields(parse(params)[0], {"kind": ANY, "epoch": ANY, "rev": ANY}, "/params")
            k = self.state["kinds"].get(p["kind"], {"last": {}})
            is_it = lambda ref: (ref.get("epoch"), ref.get("rev")) == (p["epoch"], p["rev"])
            if is_it(k["last"]) and k["last"]["state"] == "trying":
                self.keep(p["kind"], k, {x: k["last"][x] for x in ("epoch", "rev", "version", "hash")})
            elif not is_it(k.get("running", {})):
                raise Refused("wrong-state" if is_it(k["last"]) else "not-found", "it is not being tried")
        else:
            raise Refused("not-supported", f"no method {method}", "/method")

    # Sessions.

    def tick(self):
        for kind, until in list(self.until.items()):
            if time.monotonic() >= until:
                del self.until[kind]
                self.restore(kind)
                self.turn(kind, "rolledback", Refused("unconfirmed", "not confirmed in time"))
        if self.client and self.again_at and time.monotonic() >= self.again_at:
            self.report_all()
        if self.client and time.monotonic() >= self.beat_at:
            self.live()

    def connected(self, client, _data, _flags, code):
        if code == 0:
            client.subscribe([(t, self.args.subscribe_qos) for t in (
                f"tandem/1/{self.unit}/controller", self.topic + "desired/+", self.topic + "request")])

    def subscribed(self, client, _data, _mid, granted):
        if any(q == 128 for q in granted):
            client.disconnect()  # the broker does not let this node hear what it has to
            return
        self.client, self.greeted = client, False
        self.report_all()
        for e in self.state["events"]:
            self.say("event", e)

    def one_session(self, broker):
        """One connection with the broker, from its begin to its end. Returns whether it was up."""
        url = urlsplit(broker["url"])
        self.session += 1
        c = mqtt.Client(client_id="node/" + self.node, clean_session=True, protocol=mqtt.MQTTv311)
        c.username_pw_set("node/" + self.node)
        c.on_connect, c.on_subscribe, c.on_message = self.connected, self.subscribed, self.message
        gone = compact({"v": 1, "node": self.node, "boot": self.boot, "session": self.session, "up": False})
        c.will_set(self.topic + "live", gone, qos=1, retain=True)
        if url.scheme == "tls":
            own = self.at("own.pem")
            c.tls_set_context(tls(self.at("ca.pem"), own, broker.get("name") or url.hostname))
            if not self.state.get("key"):  # it is kept, for the door may be away later
                self.state["key"] = (self.door("/report-key") or {}).get("key")
                self.save()
        try:
            c.connect(url.hostname, url.port, keepalive=30)
            while not self.stopping and c.loop(0.2) == mqtt.MQTT_ERR_SUCCESS:
                self.tick()
            if self.stopping and self.client:
                sent = c.publish(self.topic + "live", gone, qos=1, retain=True)  # a good-bye, with time to arrive
                until = time.monotonic() + 1
                while not sent.is_published() and time.monotonic() < until and c.loop(0.05) == 0:
                    pass
                c.disconnect()
            return self.client is not None
        finally:
            self.client = None

    def run(self):
        pause, brokers = 0.25, [{"url": self.args.broker, "name": SERVER}] if self.args.broker else []
        brokers = brokers or self.identity["brokers"]
        while not self.stopping:
            try:
                pause = 0.25 if self.one_session(brokers[self.session % len(brokers)]) else pause
            except OSError as e:  # TLS, too
                print("no session with the broker:", e, file=sys.stderr)
            until = time.monotonic() + random.uniform(pause / 2, pause)
            pause = min(2 * pause, 30)
            while not self.stopping and time.monotonic() < until:
                self.tick()
                time.sleep(0.05)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--dir", required=True, help="the node's state; made by join.py, or new")
    p.add_argument("--type", required=True, help="the node type")
    p.add_argument("--unit", help="of a node that has not joined")
    p.add_argument("--node", help="of a node that has not joined")
    p.add_argument("--broker", help="tls://HOST:PORT or tcp://HOST:PORT; else as the join has told")
    p.add_argument("--subscribe-qos", type=int, default=1, choices=(0, 1), help="0 for a NATS server")
    p.add_argument("--max-priority", type=int, default=2**32 - 1, help="a rule of this node's own")
    args = p.parse_args()
    if not os.path.exists(os.path.join(args.dir, "identity.json")) and not (args.unit and args.node and args.broker):
        p.error("join first, or give --unit, --node and --broker")
    os.makedirs(args.dir, mode=0o700, exist_ok=True)
    agent = Agent(args)
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: setattr(agent, "stopping", True))
    agent.run()


if __name__ == "__main__":
    main()
