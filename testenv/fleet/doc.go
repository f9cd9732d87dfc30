// Package fleet plays thousands of nodes in one process. Each is a connection, a goroutine and a
// few hundred bytes; together they speak the real wire: a node connects as node/ID with its last
// will, subscribes, says live, info and what it runs, answers requests, checks every document the
// way an agent must (shared/docs/wire.md, Acceptance by a node) and reports it installed.
//
// What makes the nodes light: they keep nothing on a disk, apply nothing, roll nothing back by
// themselves, and share one memory of signed roots, so that a batch's signature is computed once
// and not once a node. Every hash and every way up to a root is computed for every document.
//
// With Config.Echo the nodes are bare clients instead, which look at nothing and answer each
// document with a status of that many bytes: the floor that a benchmark stands on.
//
// The package counts what happened and never decides whether that was right.
package fleet
