// Package policies_test runs both sides of management policies at random: the controller's kind and the agents'
// machine, with crashes of both, and documents that are late, lost and out of order.
package policies_test
