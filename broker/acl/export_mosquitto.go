package acl

import (
	"fmt"
	"strings"

	"tandem.internal/shared/wire"
)

// Mosquitto returns the rules of the identities as an ACL file of mosquitto 2 (mosquitto.conf(5),
// acl_file). User names are identities, "node/n1". With certificates mosquitto takes the user name
// from the common name, which must therefore include the role: the common name "n1" could be that of
// the node n1 or of the operator n1.
//
// mosquitto grants every SUBSCRIBE and applies the rules to each delivery. Its rules cannot say which
// topics may be retained.
func (r Rules) Mosquitto(who []Identity) ([]byte, error) {
	who, err := r.sortedIdentities(who)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	comment(&b, fmt.Sprintf(mosquittoHead, r.Unit, wire.MaxPacket))
	for _, id := range who {
		p := r.patternsOf(id)
		b.WriteString("\nuser " + id.String() + "\n")
		for _, f := range p.read {
			b.WriteString("topic read " + f + "\n")
		}
		for _, f := range p.write {
			b.WriteString("topic write " + f + "\n")
		}
	}
	return []byte(b.String()), nil
}

const mosquittoHead = `Who may write and read what in unit %s: an ACL file for mosquitto 2.
Made by tandem. Make it anew when a node joins or is revoked, and send mosquitto a SIGHUP.

mosquitto.conf must say at least:

  per_listener_settings false
  allow_anonymous false
  acl_file THIS FILE
  max_queued_messages 1000000
  max_inflight_messages 2000
  max_packet_size %d
  listener 8883
  cafile ca.pem
  certfile broker.pem
  keyfile broker-key.pem
  tls_version tlsv1.3
  require_certificate true
  use_identity_as_username true
  use_username_as_clientid true

max_queued_messages must not be 0, "no limit": mosquitto 2.0 then disconnects whoever is denied a
publish. max_packet_size is what the embedded broker allows; without it a node may announce 256 MiB
and mosquitto makes room for it. use_identity_as_username takes the user from the certificate's common name, which is to
be the whole identity, role/name. use_username_as_clientid keeps one node from taking another
one's session. Revoked certificates are refused only with a crlfile; leaving a node out of this
file takes every right from it as well.
`
