// Package brokersacl owns tests of the access rules as exported for other brokers (package acl,
// Mosquitto and NATS): a hostile node tries its luck on the real servers, over TLS with
// certificates, while the rest of its unit works.
//
// The rules of the formats are tested beside the export; here it is shown that the servers
// understand them in the same way. The MQTT spoken here is written by hand, because a client
// library would not send what an attacker does.
package brokersacl
