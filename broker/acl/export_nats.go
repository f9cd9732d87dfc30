package acl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tandem.internal/shared/wire"
)

// NATSUsers is how a NATS server authenticates its users.
type NATSUsers struct {
	// Passwords are the users' passwords, in clear or as bcrypt hashes. Nil means certificates: the
	// user name is the URI in the certificate, tandem://UNIT/node/n1, for verify_and_map. With
	// passwords the user name is the identity, "node/n1", and each user needs a password, because
	// anybody may connect to NATS as a user without one.
	Passwords map[Identity]string
}

// NATS returns the rules of the identities as an authorization block of nats-server 2.10 or later,
// which speaks MQTT 3.1.1. Topics become subjects as the server itself makes them: "/" is ".", and
// "." is "//".
//
// Nobody needs rights below $MQTT: as long as users may connect by MQTT only, they cannot reach the
// server's own subjects for QoS 1 and for retained messages. NATS does not bind the client ID to the
// user: a node can end another node's session, but cannot publish in its name. NATS refuses client IDs
// with dots, so a name with a dot is an error here; a unit's name may have one.
func (r Rules) NATS(who []Identity, users NATSUsers) ([]byte, error) {
	who, err := r.sortedIdentities(who)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	comment(&b, fmt.Sprintf(natsHead, r.Unit, wire.MaxPacket))
	b.WriteString("\nauthorization {\n  users = [\n")
	for _, id := range who {
		if strings.Contains(id.Name, ".") {
			return nil, fmt.Errorf("export: %s cannot connect to NATS, which refuses client IDs with dots; "+
				"give it another name or use another broker", id)
		}
		name, password := "tandem://"+r.Unit+"/"+id.String(), ""
		if users.Passwords != nil {
			p := users.Passwords[id]
			if p == "" {
				return nil, fmt.Errorf("export: %s has no password", id)
			}
			if strings.ContainsFunc(p, unquotable) {
				return nil, errors.New("export: the password of " + id.String() +
					" has characters that a NATS configuration cannot carry")
			}
			name, password = id.String(), ", password: '"+p+"'"
		}
		p := r.patternsOf(id)
		b.WriteString("    { user: " + strconv.Quote(name) + password +
			", allowed_connection_types: [\"MQTT\"], permissions: {\n")
		writeSubjects(&b, "publish", p.write)
		writeSubjects(&b, "subscribe", p.read)
		b.WriteString("    } }\n")
	}
	b.WriteString("  ]\n}\n")
	return []byte(b.String()), nil
}

// unquotable reports whether a character is not possible in single quotes in a NATS configuration.
func unquotable(c rune) bool { return c < ' ' || c == '\'' || c == '"' || c == '\\' || c >= 0x7f }

// writeSubjects appends one list of permissions. NATS takes an empty list as one that allows everything, so for no
// filters it is a rule that denies everything.
func writeSubjects(b *strings.Builder, name string, filters []string) {
	if len(filters) == 0 {
		b.WriteString("      " + name + ": { deny: \">\" }\n")
		return
	}
	b.WriteString("      " + name + ": { allow: [\n")
	for _, f := range filters {
		if parent, ok := strings.CutSuffix(f, "/#"); ok { // in MQTT, but not in NATS, it also matches the parent level
			b.WriteString("        " + strconv.Quote(subject(parent)) + "\n")
		}
		b.WriteString("        " + strconv.Quote(subject(f)) + "\n")
	}
	b.WriteString("      ] }\n")
}

// subject returns the NATS subject of an MQTT filter without empty levels and white space.
func subject(filter string) string {
	levels := strings.Split(filter, "/")
	for i, l := range levels {
		switch l {
		case "+":
			levels[i] = "*"
		case "#":
			levels[i] = ">"
		default:
			levels[i] = strings.ReplaceAll(l, ".", "//")
		}
	}
	return strings.Join(levels, ".")
}

const natsHead = `Who may write and read what in unit %s: an authorization block for nats-server 2.10 or later.
Made by tandem. Make it anew when a node joins or is revoked, and run: nats-server --signal reload

The server's configuration must include this file and say at least:

  server_name: NAME
  jetstream { store_dir: DIR, sync_interval: always }
  max_payload: %d
  mqtt {
    listen: "0.0.0.0:8883"
    tls { ca_file: ca.pem, cert_file: broker.pem, key_file: broker-key.pem, verify_and_map: true, min_version: "1.3" }
  }

max_payload lets every message of Tandem's through, and no much longer one. verify_and_map takes the
user from the URI in the certificate. Users may connect by MQTT alone: as
clients of NATS they could get at the server's internal subjects. Run tandem-controller and
tandem-node with --subscribe-qos 0 (each QoS 1 subscription is a JetStream consumer).
NATS lets whoever is connected choose any client ID and so end another session.
`
