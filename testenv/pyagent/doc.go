// Package pyagent runs the example of an agent in another language, deploy/agents/python, against every broker. What it
// cannot do is a fault of the wire's contract, from which alone it was written.
package pyagent
