// Package brokers holds one suite of end-to-end tests that every broker a unit may have must pass:
// the controller's own, tandem-broker's, mosquitto and NATS server, with the configurations that
// are shipped for them. Controller and node agents run in this process and speak TCP on loopback.
package brokers
