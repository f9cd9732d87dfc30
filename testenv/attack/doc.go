// Package attack owns the suite of attacks on a unit: one table of attempts, each with who makes it,
// what is tried, and the refusal that has to come, on the embedded broker, on mosquitto and on NATS.
//
// The unit is a real controller with real agents, on real TLS sockets, with certificates of the
// unit's own CA and, at brokers of the site, the rules that tandem-broker acl prints. A new
// configuration is on its way during every attempt and has to arrive, nothing of the attacker may be
// heard by anybody, and at the end the journal has to be whole and a new node has to be able to join.
package attack
